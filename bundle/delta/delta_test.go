package delta_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
)

func TestPatchesAndBaseMakeWholeBundle(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second, third := packageOf(t, 0), packageOf(t, 1), packageOf(t, 2)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	data := update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}})
	plain := bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{second}, Since: earlier(t, old).Since})
	if len(data) > len(plain)/2 {
		t.Errorf("with patches %d bytes, without %d", len(data), len(plain))
	}
	a := withBase(t, data, old)
	if a.Index.Format != bundle.FormatPatch {
		t.Errorf("the format is %s", a.Index.Format)
	}
	patched := map[string]bool{}
	for _, e := range a.Index.Entries {
		if e.Encoding == bundle.Patched {
			patched[path.Base(e.Link)] = true
		}
	}
	if len(patched) != 2 || !patched["program"] {
		t.Errorf("patched are %v", patched)
	}
	equalsWhole(t, a, second)
	head, name := make([]byte, 4), "addons/demo/1.1.0/assets/program"
	if err := a.ReadAt(name, head, 1000); err != nil || !bytes.Equal(head, program(1, 1, 500_000)[1000:1004]) {
		t.Errorf("read at an offset: %x %v", head, err)
	}
	rest, err := a.OpenRest(name, 400_000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(rest); err != nil || !bytes.Equal(got, program(1, 1, 500_000)[400_000:]) {
		t.Errorf("the rest: %d bytes, %v", len(got), err)
	}

	// Another Sealift unpacks both into one folder.
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := a.Extract(t.Context(), root, func(bundle.Entry) bool { return true }); err != nil {
		t.Fatal(err)
	}
	index, err := a.UnpackedIndex()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, bundle.IndexName), index, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	equalsWhole(t, whole, second)

	// The next bundle adds to this one as it was unpacked: layers that a patch made are bases, and are left out where they stay.
	next := update(t, earlier(t, whole), bundle.Bundle{Packages: []*bundle.Archive{third}})
	equalsWhole(t, withBase(t, next, whole), third)
	again := update(t, earlier(t, whole), bundle.Bundle{Packages: []*bundle.Archive{second}})
	if len(again) > 20_000 {
		t.Errorf("nothing changed, and the bundle has %d bytes", len(again))
	}
	equalsWhole(t, withBase(t, again, whole), second)

	// The record of a cluster that was upgraded with this bundle names the layers that patches made.
	layers := a.Index.LeanLayers(a.Index.Packages[0])
	since := bundle.SinceInstalled(whole.Digest, []bundle.InstalledPackage{{Archive: second, Lean: layers}})
	recorded := delta.Earlier{Archives: []*bundle.Archive{second}, Since: since}
	for _, p := range []*bundle.Archive{second, third} {
		data := update(t, recorded, bundle.Bundle{Packages: []*bundle.Archive{p}})
		if most := len(plain) / 2; len(data) > most {
			t.Errorf("after %d layers as patches: %d bytes, more than %d", len(layers), len(data), most)
		}
		b := opened(t, data)
		if err := b.WithInstalled(node{Archive: whole}); err != nil {
			t.Fatal(err)
		}
		equalsWhole(t, b, p)
	}
	if err := errors.Join(a.Close(), whole.Close()); err != nil {
		t.Error(err)
	}
}

// TestPatchesApplyToUpdate adds to a bundle that leaves out the documents of an image itself.
func TestPatchesApplyToUpdate(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	app := func(image, version uint64) *bundle.Archive {
		return packageWith(t, version, layerOf(t, "app", program(21, image, 400_000)), map[string][]byte{"program": program(1, version, 500_000)})
	}
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{app(0, 0)}}))
	first := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{app(0, 1)}, Since: earlier(t, old).Since}))
	for _, image := range []uint64{0, 2} { // the update has neither layer
		next := app(image, 2)
		a := withBase(t, update(t, earlier(t, first), bundle.Bundle{Packages: []*bundle.Archive{next}}), first)
		if base := entry(t, a, "addons/demo/1.2.0/assets/program").Link; base != "addons/demo/1.1.0/assets/program" {
			t.Errorf("the program is a patch of %s", base)
		}
		equalsWhole(t, a, next)
	}
}

// node has the files of a bundle.
type node struct {
	*bundle.Archive
	changed string // this path has other bytes
}

func (n node) Open(e bundle.Entry) (io.ReadCloser, error) {
	if e.Path == n.changed {
		return io.NopCloser(bytes.NewReader(make([]byte, e.Size))), nil
	}
	return n.OpenEntry(e.Path)
}

func TestForgedAndMissingBasesAreRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second := packageOf(t, 0), packageOf(t, 1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	// a cluster's record names its packages
	installed := delta.Earlier{Archives: []*bundle.Archive{first}, Since: bundle.SinceInstalled(old.Digest, []bundle.InstalledPackage{{Archive: first}})}
	data := update(t, installed, bundle.Bundle{Packages: []*bundle.Archive{second}})

	a := opened(t, data)
	if err := a.Verify(t.Context()); !errors.Is(err, bundle.ErrNoBase) || !strings.Contains(err.Error(), old.Digest) {
		t.Errorf("without the base: %v", err)
	}
	if err := a.WithBase(opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{second}}))); err == nil || !strings.Contains(err.Error(), old.Digest) {
		t.Errorf("with another bundle: %v", err)
	}
	for _, name := range []string{"addons/demo/1.0.0/assets/program", a.Index.Entries[len(a.Index.Entries)-1].Link} {
		if name == "" {
			continue
		}
		forged := opened(t, data)
		if err := forged.WithInstalled(node{old, name}); err != nil {
			t.Fatal(err)
		}
		var digest *bundle.DigestError
		if err := forged.Verify(t.Context()); !errors.As(err, &digest) || !strings.Contains(err.Error(), name) {
			t.Errorf("a node whose %s has other bytes: %v", name, err)
		}
	}
	good := opened(t, data)
	if err := good.WithInstalled(node{Archive: old}); err != nil {
		t.Fatal(err)
	}
	equalsWhole(t, good, second)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}

func TestEachDamagedPatchIsNamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second := packageOf(t, 0), packageOf(t, 1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	data := update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}})
	a := opened(t, data)
	var patches []bundle.Entry
	for _, e := range a.Index.Entries {
		if bundle.OfPatches(e) {
			patches = append(patches, e)
		}
	}
	if len(patches) != 2 {
		t.Fatalf("%d patches", len(patches))
	}
	random := rand.New(rand.NewPCG(1, 1))
	for n := range 20 {
		p := patches[n%len(patches)]
		content := contentOf(t, a, p.Path)
		at := bytes.Index(data, content[:512]) + random.IntN(512)
		damaged := bytes.Clone(data)
		damaged[at] ^= 1 << random.IntN(8)
		b := withBase(t, damaged, old)
		if err := b.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), p.Path) {
			t.Errorf("byte %d flipped in %s: %v", at, p.Path, err)
		}
	}
	if _, err := bundle.NewArchive(bytes.NewReader(data[:len(data)-2000]), int64(len(data)-2000)); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("a bundle that is cut off: %v", err)
	}
}

func TestImpossiblePatchesAreRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, second := packageOf(t, 0), packageOf(t, 1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	a := opened(t, update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}}))
	index, _ := a.Raw()
	program := entry(t, a, "addons/demo/1.1.0/assets/program")
	for want, change := range map[string][2]string{
		"is patched, which format":      {"archive/v3", "archive/v2"},
		`archive/v9" is not known`:      {"archive/v3", "archive/v9"},
		"is not an earlier file":        {`"path": "` + program.Patch.Path + `",` + "\n    \"base\"", `"path": "patches/none",` + "\n    \"base\""},
		"has the encoding":              {`"encoding": "patch"`, `"encoding": "base"`},
		"without the digests":           {program.Patch.From.SHA256, "x"},
		"impossible size":               {fmt.Sprintf(`"size": %d`, program.Size), `"size": 3000000000`},
		"bytes of memory":               {fmt.Sprintf(`"memory": %d`, program.Patch.Memory), `"memory": 3000000000`},
		"not the digest of a bundle":    {`"base": "` + a.Index.Base + `"`, `"base": "x"`},
		"is in another bundle, but the": {`"base": "` + a.Index.Base + `"`, `"base": ""`},
	} {
		if !bytes.Contains(index, []byte(change[0])) {
			t.Fatalf("the index has no %s", change[0])
		}
		if _, err := bundle.NewUnpacked(bytes.ReplaceAll(index, []byte(change[0]), []byte(change[1])), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func entry(t *testing.T, a *bundle.Archive, name string) bundle.Entry {
	t.Helper()
	e, ok := a.Entry(name)
	if !ok || e.Patch == nil {
		t.Fatalf("%s is not patched", name)
	}
	return e
}

func TestSpoolKeepsPatches(t *testing.T) {
	first, second := packageOf(t, 0), packageOf(t, 1)
	e := earlier(t, opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}})))
	folder := t.TempDir()
	e.Spool = delta.NewSpool(folder)
	kept := func() map[string]os.FileInfo {
		t.Helper()
		set, err := e.Make(t.Context(), []*bundle.Archive{second}, nil)
		if err == nil {
			err = set.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil || len(files) != 4 { // two patches, and their descriptions
			t.Fatalf("the spool has %q, %v", files, err)
		}
		known := map[string]os.FileInfo{}
		for _, name := range files {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			known[name] = info
		}
		return known
	}
	before := kept()
	if after := kept(); !maps.EqualFunc(before, after, os.SameFile) {
		t.Errorf("patches were made again: %v %v", before, after)
	}
	for name := range before {
		if strings.HasSuffix(name, ".json") {
			continue
		}
		if err := os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		if kept(); sizeOf(t, name) < 1000 {
			t.Errorf("%s is still damaged", name)
		}
	}
}

func sizeOf(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
