package kurl_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/kurl"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/store"
)

// entry is one of a plain tar. A body that begins with "->" is a symbolic link, with "=>" a hard link.
type entry struct{ name, body string }

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o755, Size: int64(len(e.body)), Typeflag: tar.TypeReg}
		if target, ok := strings.CutPrefix(e.body, "->"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		} else if target, ok := strings.CutPrefix(e.body, "=>"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, target, 0
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if strings.HasPrefix(e.body, "device") {
			h.Typeflag, h.Size = tar.TypeBlock, 0
		}
		err := w.WriteHeader(h)
		if err == nil && h.Size > 0 {
			_, err = io.WriteString(w, e.body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const manifest = "image one example.org/one:1 # the first\nimage two docker.io/library/two:2 no_remote_load\napt lvm2 lvm2-dbg\n"

func addOn(prefix, name, version string, more ...entry) []entry {
	dir := prefix + "addons/" + name + "/" + version + "/"
	entries := []entry{{dir, ""}, {dir + "Manifest", manifest}, {dir + "install.sh", "function " + name + "() { :; }\n"},
		{dir + "images/one.tar.gz", "image 1"}, {dir + "images/two.tar.gz", "image 2"}}
	for _, e := range more {
		entries = append(entries, entry{dir + e.name, e.body})
	}
	return entries
}

func open(t *testing.T, made kurl.Made) *bundle.Archive {
	t.Helper()
	a, err := bundle.Open(made.File)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	if err := a.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestKurlPackageIsConverted(t *testing.T) {
	data := archive(t, addOn("./", "rook", "1.0.4-14.2.21", entry{"a.yaml", "a: 1\n"}, entry{"b.yaml", "->c.yaml"}, entry{"c.yaml", "->a.yaml"},
		entry{"d.yaml", "=>./addons/rook/1.0.4-14.2.21/a.yaml"}, entry{"ubuntu-22.04/archives/x.deb", "deb"})...)
	dir := t.TempDir()
	result, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: dir})
	if err != nil || len(result.Packages) != 1 || len(result.LeftOut) != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	made := result.Packages[0]
	if made.Name != "rook" || made.Version != "1.0.4-14.2.21" || made.Images != 2 || made.File != filepath.Join(dir, "rook-1.0.4-14.2.21.tar.gz") {
		t.Errorf("%+v", made)
	}
	a := open(t, made)
	for _, name := range []string{"a.yaml", "b.yaml", "c.yaml", "d.yaml"} {
		if text, err := a.ReadFile("addons/rook/1.0.4-14.2.21/"+name, 100); err != nil || string(text) != "a: 1\n" {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	info := a.Index.Packages[0]
	if want := (bundle.Image{ID: "two", Ref: "docker.io/library/two:2", NoRemoteLoad: true, Size: 7}); info.Images[1].ID != want.ID || info.Images[1].Ref != want.Ref ||
		!info.Images[1].NoRemoteLoad || info.Images[1].Size != want.Size {
		t.Errorf("images %+v", info.Images)
	}
	if !slices.Equal(a.Index.Platforms, []string{"linux/amd64"}) || len(info.Targets) != 0 {
		t.Errorf("platforms %v, targets %v", a.Index.Platforms, info.Targets)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".kurl-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	again, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: t.TempDir()})
	if err != nil || again.Packages[0].Index != made.Index {
		t.Errorf("another index of the same archive: %+v, %v", again, err)
	}
}

func TestKurlBundleIsSplitIntoPackages(t *testing.T) {
	entries := slices.Concat([]entry{{"install.sh", "x"}, {"kurl/bin/kurl", "x"}, {"kurl/packages/kubernetes/1.36.3/Manifest", ""}, {"kurl/packages/host/fio/ubuntu-22.04/x.deb", "x"}},
		addOn("kurl/", "minio", "2025-10-15T17-29-55Z"), addOn("kurl/", "ekco", "0.28.14", entry{"x", "=>kurl/addons/ekco/0.28.14/Manifest"}))
	result, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, entries...)), kurl.Options{Dir: t.TempDir()})
	if err != nil || len(result.Packages) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	if want := []string{"bin", "install.sh", "packages/host/fio", "packages/kubernetes/1.36.3"}; !slices.Equal(result.LeftOut, want) {
		t.Errorf("left out %v, want %v", result.LeftOut, want)
	}
	for _, made := range result.Packages {
		open(t, made)
	}
}

func TestImportRefuses(t *testing.T) {
	good := addOn("", "x", "1")
	whole := archive(t, good...)
	for name, row := range map[string]struct {
		data []byte
		want string
	}{
		"no archive":                       {[]byte("no archive"), "not a kURL archive"},
		"a bundle of Sealift":              {archive(t, append([]entry{{"index.json", "{}"}}, good...)...), "needs no import"},
		"a package of Sealift":             {archive(t, append([]entry{{"addons/x/1/index.json", "{}"}}, good...)...), "needs no import"},
		"one that was cut":                 {whole[:len(whole)-20], "damaged"},
		"one without add-ons":              {archive(t, entry{"bin/kurl", "x"}), "has no add-on, only bin"},
		"one of somebody else":             {archive(t, entry{"src/main.c", "x"}), "has no add-on: a package"},
		"a package of Kubernetes":          {archive(t, entry{"packages/kubernetes/1.36.3/Manifest", ""}), "has no add-on, only packages/kubernetes/1.36.3; Sealift has Kubernetes of its own: 'sealift addon new-version kubernetes 1.36.3'"},
		"the steps between two Kubernetes": {archive(t, entry{"./packages/kubernetes/1.34.6/Manifest", ""}, entry{"./packages/kubernetes/1.35.2/Manifest", ""}), "only packages/kubernetes/1.34.6, packages/kubernetes/1.35.2; "},
		"packages of the host":             {archive(t, entry{"packages/host/openssl/ubuntu-22.04/archives/x.deb", "x"}), "only packages/host/openssl"},
		"packages that are packed":         {archive(t, entry{"kurl/assets/rook-1.4.9.tar.gz", "x"}), "only assets/rook-1.4.9.tar.gz"},
		"a bundle that kURL did not end":   {archive(t, append(good, entry{"ERROR.txt", "x"})...), "download it again"},
		"an add-on without a Manifest":     {archive(t, entry{"addons/x/1/install.sh", ""}), "has no Manifest"},
		"an add-on without hooks":          {archive(t, entry{"addons/x/1/Manifest", ""}), "has no install.sh"},
		"a Manifest that is none":          {archive(t, entry{"addons/x/1/Manifest", "nonsense a b\n"}, entry{"addons/x/1/install.sh", ""}), "addons/x/1/Manifest:1:1"},
		"an image that is not there":       {archive(t, entry{"addons/x/1/Manifest", "image a b:1\n"}, entry{"addons/x/1/install.sh", ""}), "no images/a.tar.gz"},
		"a link out of the add-on":         {archive(t, addOn("", "x", "1", entry{"l", "->/etc/passwd"})...), "links to"},
		"a link to another add-on":         {archive(t, addOn("", "x", "1", entry{"l", "->../../y/1/Manifest"})...), "links to"},
		"links in a circle":                {archive(t, addOn("", "x", "1", entry{"l", "->m"}, entry{"m", "->l"})...), "links to"},
		"a device":                         {archive(t, addOn("", "x", "1", entry{"d", "device"})...), "neither a file nor a link"},
		"a file in the place of the index": {archive(t, addOn("", "x", "1", entry{"index.json", "{}"})...), "index"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := kurl.Import(t.Context(), bytes.NewReader(row.data), kurl.Options{Dir: dir})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// kURL's server makes one archive of the packages between two versions, without the folder kurl (addon_fetch_multiple_airgap).
func TestStepsBetweenTwoVersionsAreImported(t *testing.T) {
	entries := slices.Concat(addOn("./", "rook", "1.4.9"), addOn("./", "rookupgrade", "10to14"), addOn("", "rook", "1.5.12"), []entry{{"packages/kubernetes/1.20.15/Manifest", ""}})
	result, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, entries...)), kurl.Options{Dir: t.TempDir()})
	if err != nil || len(result.Packages) != 3 || !slices.Equal(result.LeftOut, []string{"packages/kubernetes/1.20.15"}) {
		t.Fatalf("%+v, %v", result, err)
	}
}

func TestInvalidAddOnDoesNotStopOthers(t *testing.T) {
	entries := slices.Concat([]entry{{"addons/a/1/install.sh", ""}}, addOn("", "b", "1"), []entry{{"addons/c/1/Manifest", "image a b:1\n"}, {"addons/c/1/install.sh", ""}}, addOn("", "d", "1"))
	result, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, entries...)), kurl.Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "addons/a/1: has no Manifest") || !strings.Contains(err.Error(), "addons/c/1: ") {
		t.Errorf("got %v", err)
	}
	if len(result.Packages) != 2 || result.Packages[0].Name != "b" || result.Packages[1].Name != "d" {
		t.Errorf("got %+v", result)
	}
}

// TestUnpackedArchiveIsBounded imports small archives that unpack to large ones, in an add-on or beside one.
func TestUnpackedArchiveIsBounded(t *testing.T) {
	much := strings.Repeat("0", 1<<20)
	for name, row := range map[string]struct {
		entries []entry
		options kurl.Options
		want    string
	}{
		"a large file":              {addOn("", "x", "1", entry{"zeros", much}), kurl.Options{MaxSize: 1 << 20}, "unpacks to more than 1048576 bytes"},
		"a large file left out":     {append(addOn("", "x", "1"), entry{"bin/zeros", much}), kurl.Options{MaxSize: 1 << 20}, "unpacks to more than 1048576 bytes"},
		"many files":                {addOn("", "x", "1"), kurl.Options{MaxFiles: 4}, "has more than 4 files"},
		"no bound":                  {addOn("", "x", "1", entry{"zeros", much}), kurl.Options{MaxSize: -1, MaxFiles: -1}, ""},
		"as much as is allowed":     {addOn("", "x", "1", entry{"zeros", much}), kurl.Options{MaxSize: 2 << 20, MaxFiles: 6}, ""},
		"a small file, by defaults": {addOn("", "x", "1"), kurl.Options{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			row.options.Dir = t.TempDir()
			_, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, row.entries...)), row.options)
			if (err == nil) != (row.want == "") || err != nil && (!strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "damaged")) {
				t.Fatalf("got %v, want %q", err, row.want)
			}
			if left, err := os.ReadDir(row.options.Dir); err != nil || len(left) > 0 && row.want != "" {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestSparseEntriesCount imports GNU tar's form of a file with holes: a few hundred bytes that unpack to many.
func TestSparseEntriesCount(t *testing.T) {
	for _, format := range []string{"gnu", "pax"} {
		root := t.TempDir()
		dir := filepath.Join(root, "addons", "x", "1")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, size := range map[string]int64{"Manifest": 0, "install.sh": 0, "holes": 8 << 20} {
			file := filepath.Join(dir, name)
			if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Truncate(file, size)); err != nil {
				t.Fatal(err)
			}
		}
		data, err := exec.CommandContext(t.Context(), "tar", "--sparse", "--format="+format, "-C", root, "-czf", "-", "addons").Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: t.TempDir(), MaxSize: 1 << 20}); err == nil || !strings.Contains(err.Error(), "unpacks to more than 1048576 bytes") {
			t.Errorf("%s: an archive of %d bytes: got %v", format, len(data), err)
		}
		if _, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: t.TempDir()}); err != nil {
			t.Errorf("%s: within the bound: %v", format, err)
		}
		if err := os.Truncate(filepath.Join(dir, "holes"), 100<<20); err != nil {
			t.Fatal(err)
		}
		if data, err = exec.CommandContext(t.Context(), "tar", "--sparse", "--format="+format, "-C", root, "-czf", "-", "addons").Output(); err != nil {
			t.Fatal(err)
		}
		if _, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "unpacks to more than 67") {
			t.Errorf("%s: an archive of %d bytes, by default: got %v", format, len(data), err)
		}
		if _, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: t.TempDir(), MaxSize: 200 << 20}); err != nil {
			t.Errorf("%s: within the bound of an option: %v", format, err)
		}
	}
}

// TestLongLinkChainIsRefusedEarly has links that lead from one to the next in the order that takes longest.
func TestLongLinkChainIsRefusedEarly(t *testing.T) {
	const links = 50_000
	var chain []entry
	for i := range links {
		chain = append(chain, entry{strconv.Itoa(i), "->" + strconv.Itoa(i+1)})
	}
	chain = append(chain, entry{strconv.Itoa(links), "content"})
	_, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, addOn("", "x", "1", chain...)...)), kurl.Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "links to") {
		t.Errorf("got %v", err)
	}
}

func TestEscapingPathsAreOmitted(t *testing.T) {
	root := t.TempDir()
	entries := addOn("", "x", "1", entry{"../../../../../escaped", "x"})
	result, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, entries...)), kurl.Options{Dir: filepath.Join(root, "a", "b")})
	if err != nil || len(result.Packages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "escaped" {
			t.Errorf("there is %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreImportsKurlPackages(t *testing.T) {
	dir, made := t.TempDir(), t.TempDir()
	for name, data := range map[string][]byte{"x-1.tar.gz": archive(t, addOn("", "x", "1")...), "y-1.tar.gz": archive(t, addOn("", "x", "1")...), "junk-1.tar.gz": bytes.Repeat([]byte("junk"), 100), "index.json": []byte("{}")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inner, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := kurl.NewStore(inner, made)
	for range 2 { // made, then kept
		object, err := s.Get(t.Context(), "x-1.tar.gz")
		if err != nil {
			t.Fatal(err)
		}
		a, err := bundle.NewArchive(object, object.Size())
		if err != nil || a.Index.Packages[0].Name != "x" {
			t.Errorf("%v", err)
		}
		_ = object.Close()
	}
	if _, err := s.Get(t.Context(), "y-1.tar.gz"); err == nil || !strings.Contains(err.Error(), "it has x 1 instead") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), "junk-1.tar.gz"); err == nil || !strings.Contains(err.Error(), "junk-1.tar.gz") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), "none-1.tar.gz"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	object, err := s.Get(t.Context(), "index.json")
	if err != nil || object.Size() != 2 {
		t.Errorf("%v", err)
	}
}

// TestArchiveThatIsNoPackageIsReadOnce has archives whose import fails each time.
func TestArchiveThatIsNoPackageIsReadOnce(t *testing.T) {
	whole := archive(t, addOn("", "x", "1", entry{"large", string(bytes.Repeat([]byte("0123456789"), 10_000))})...)
	torn := bytes.Clone(whole)
	torn[len(torn)-6] ^= 1 // the checksum of gzip
	for name, row := range map[string]struct {
		data []byte
		want string
	}{
		"a package of Kubernetes":          {archive(t, entry{"packages/kubernetes/1.27.0/images/x.tar.gz", "x"}), "has no add-on"},
		"no archive":                       {bytes.Repeat([]byte("junk"), 100), "not a kURL archive"},
		"one that was cut":                 {whole[:len(whole)-200], "damaged"},
		"one with a wrong checksum":        {torn, "checksum"},
		"one that is not finished":         {archive(t, entry{"ERROR.txt", "x"}), "download it again"},
		"an add-on without a Manifest":     {archive(t, entry{"addons/x/1/install.sh", ""}), "has no Manifest"},
		"an add-on without hooks":          {archive(t, entry{"addons/x/1/Manifest", ""}), "has no install.sh"},
		"an image that is not there":       {archive(t, entry{"addons/x/1/Manifest", "image a b:1\n"}, entry{"addons/x/1/install.sh", ""}), "no images/a.tar.gz"},
		"a link to what is not there":      {archive(t, addOn("", "x", "1", entry{"l", "->/etc/passwd"})...), "links to"},
		"a device":                         {archive(t, addOn("", "x", "1", entry{"d", "device"})...), "neither a file nor a link"},
		"a file in the place of the index": {archive(t, addOn("", "x", "1", entry{"index.json", "{}"})...), "index"},
		"programs that are none":           {archive(t, append(addOn("", "x", "1"), entry{"shared/kurl-util.tar", "junk"})...), "docker save"},
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := store.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := inner.Put(t.Context(), "x-1.tar.gz", store.Bytes(row.data)); err != nil {
				t.Fatal(err)
			}
			count := &signed{Store: inner}
			s := kurl.NewStore(count, t.TempDir())
			for round := range 2 {
				before := count.reads.Load()
				if _, err := s.Get(t.Context(), "x-1.tar.gz"); !errors.Is(err, bundle.ErrForeign) || !strings.Contains(err.Error(), row.want) {
					t.Errorf("round %d: %v, want %q", round, err, row.want)
				}
				if read := count.reads.Load() - before; (read == 0) != (round == 1) {
					t.Errorf("round %d: the store was read %d times", round, read)
				}
			}
		})
	}
}

// failing is a store whose values cannot be read from some byte on, until it is mended.
type failing struct {
	store.Store
	from   int64
	mended atomic.Bool
}

func (f *failing) Get(ctx context.Context, key string) (store.Object, error) {
	object, err := f.Store.Get(ctx, key)
	return broken{object, f}, err
}

type broken struct {
	store.Object
	*failing
}

func (b broken) SHA256() string { return strings.Repeat("a", 64) } // so that nothing is read to know it

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.from && !b.mended.Load() {
		return 0, io.ErrUnexpectedEOF // of a connection
	}
	return b.Object.ReadAt(p, off)
}

// TestImportIsTriedAgainAfterOutage reads archives from a store that fails first: at their beginning, within an entry, and at the checksum.
func TestImportIsTriedAgainAfterOutage(t *testing.T) {
	noise := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	whole := archive(t, addOn("", "x", "1", entry{"large", string(noise)})...)
	for _, from := range []int64{70_000, 200_000, int64(len(whole)) - 4} {
		inner, err := store.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inner.Put(t.Context(), "x-1.tar.gz", store.Bytes(whole)); err != nil {
			t.Fatal(err)
		}
		outage := &failing{Store: inner, from: from}
		s := kurl.NewStore(outage, t.TempDir())
		if _, err := s.Get(t.Context(), "x-1.tar.gz"); err == nil || errors.Is(err, bundle.ErrForeign) {
			t.Errorf("from byte %d: %v", from, err)
		}
		outage.mended.Store(true)
		object, err := s.Get(t.Context(), "x-1.tar.gz")
		if err != nil {
			t.Errorf("from byte %d, after the outage: %v", from, err)
			continue
		}
		_ = object.Close()
	}
}

func TestStoreOfKurlPackagesExpires(t *testing.T) {
	inner, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := store.As[store.Expirer](kurl.NewStore(inner, t.TempDir())); !ok {
		t.Error("a folder with packages of kURL does not remove old values")
	}
	if _, ok := store.As[store.Expirer](kurl.NewStore(struct{ store.Store }{inner}, t.TempDir())); ok {
		t.Error("a store that cannot remove values says that it can")
	}
}

// signed is a store that returns URLs and counts the bytes read from it.
type signed struct {
	store.Store
	reads atomic.Int64
}

func (s *signed) Get(ctx context.Context, key string) (store.Object, error) {
	object, err := s.Store.Get(ctx, key)
	return counted{object, &s.reads}, err
}

func (s *signed) Presign(_ context.Context, key string, _ time.Duration) (string, error) {
	return "https://bucket/" + key, nil
}

type counted struct {
	store.Object
	reads *atomic.Int64
}

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	c.reads.Add(1)
	return c.Object.ReadAt(p, off)
}

func TestPackageBuilderIsDetectedOnce(t *testing.T) {
	dir := t.TempDir()
	inner, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, addOn("", "ours", "1")...)), kurl.Options{Dir: dir})
	if err != nil || len(made.Packages) != 1 {
		t.Fatal(made, err)
	}
	if _, err := inner.Put(t.Context(), "theirs-1.tar.gz", store.Bytes(archive(t, addOn("", "theirs", "1")...))); err != nil {
		t.Fatal(err)
	}
	count := &signed{Store: inner}
	s := kurl.NewStore(count, t.TempDir())
	for key, want := range map[string]string{"ours-1.tar.gz": "https://bucket/ours-1.tar.gz", "theirs-1.tar.gz": ""} {
		for round := range 2 {
			before := count.reads.Load()
			object, err := s.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			_ = object.Close()
			if read := count.reads.Load() - before; (read == 0) != (round == 1) {
				t.Errorf("%s, round %d: the store was read %d times", key, round, read)
			}
			if at, err := s.Presign(t.Context(), key, time.Minute); err != nil || at != want {
				t.Errorf("%s: the URL is %q, %v, want %q", key, at, err, want)
			}
		}
	}
	if _, err := inner.Put(t.Context(), "ours-1.tar.gz", store.Bytes(archive(t, addOn("", "ours", "1")...))); err != nil {
		t.Fatal(err)
	}
	if at, err := s.Presign(t.Context(), "ours-1.tar.gz", time.Minute); err != nil || at != "" {
		t.Errorf("replaced by what kURL built: the URL is %q, %v", at, err)
	}
}

func FuzzImport(f *testing.F) {
	f.Add(archive(f, addOn("", "x", "1", entry{"l", "->Manifest"})...))
	f.Add(archive(f, entry{"kurl/addons/../x", "y"}, entry{"addons/x/1/a\nb", "y"}))
	f.Add([]byte{})
	dir := f.TempDir() // each process that fuzzes has one, and reads one archive after the other
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: filepath.Join(dir, "out"), MaxSize: 1 << 20})
		if err == nil && len(result.Packages) == 0 {
			t.Error("nothing was made, and nothing wrong")
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 1 {
			t.Errorf("%v, %v", entries, err)
		}
	})
}

func TestLeftoversOfKilledImportAreRemoved(t *testing.T) {
	dir := t.TempDir()
	dead, theirs := filepath.Join(dir, ".kurl-123"), filepath.Join(dir, ".kurl-notes")
	for _, folder := range []string{filepath.Join(dead, "1"), theirs} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, addOn("", "x", "1")...)), kurl.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spool of a dead import is still there: %v", err)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
}
