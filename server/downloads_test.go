package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
)

func TestReplicasServeSameBytes(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s)
	one, two := serve(t, s, nil), serve(t, s, nil)
	at := "/bundle/" + post(t, one.URL, installer(both)) + ".tar.gz"
	a, b := ask(t, "GET", one.URL+at, ""), ask(t, "GET", two.URL+at, "")
	if a.StatusCode != http.StatusOK || !bytes.Equal(a.body, b.body) || a.Header.Get("ETag") != b.Header.Get("ETag") || a.ContentLength != int64(len(a.body)) {
		t.Fatalf("%s, %d and %d bytes, ETags %s and %s", a.Status, len(a.body), len(b.body), a.Header.Get("ETag"), b.Header.Get("ETag"))
	}
	tag := a.Header.Get("ETag")
	head := ask(t, "HEAD", two.URL+at, "")
	part := ask(t, "GET", two.URL+at, "", "Range", "bytes=5000000-5999999", "If-Range", tag)
	if head.ContentLength != int64(len(a.body)) || part.StatusCode != http.StatusPartialContent || !bytes.Equal(part.body, a.body[5_000_000:6_000_000]) {
		t.Errorf("HEAD %d, range %s %d bytes", head.ContentLength, part.Status, len(part.body))
	}
	if whole := ask(t, "GET", two.URL+at, "", "Range", "bytes=5-", "If-Range", `"another"`); whole.StatusCode != http.StatusOK || len(whole.body) != len(a.body) {
		t.Errorf("range of another bundle: %s", whole.Status)
	}
	if same := ask(t, "GET", two.URL+at, "", "If-None-Match", tag); same.StatusCode != http.StatusNotModified {
		t.Errorf("unchanged: %s", same.Status)
	}
	if none := ask(t, "GET", two.URL+at, "", "Range", "bytes=99999999999-"); none.StatusCode != http.StatusRequestedRangeNotSatisfiable || none.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", len(a.body)) {
		t.Errorf("behind the end: %s %s", none.Status, none.Header.Get("Content-Range"))
	}
	if last := ask(t, "GET", two.URL+at, "", "Range", "bytes=-1000"); last.StatusCode != http.StatusPartialContent || !bytes.Equal(last.body, a.body[len(a.body)-1000:]) {
		t.Errorf("the last bytes: %s, %d bytes", last.Status, len(last.body))
	}
	if other := ask(t, "GET", two.URL+at, "", "If-Match", `"another"`); other.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("only another bundle: %s", other.Status)
	}
	if several := ask(t, "GET", two.URL+at, "", "Range", "bytes=0-0,2-2,4-4"); several.StatusCode != http.StatusOK || !bytes.Equal(several.body, a.body) {
		t.Errorf("several ranges, which may cost a request to the store each: %s, %d bytes", several.Status, len(several.body))
	}
}

// line is a server before a bucket whose line can be made to fail.
func line(t *testing.T) (*objects.Line, *httptest.Server) {
	t.Helper()
	o := objects.Start(t)
	fill(t, open(t, o.URL("")))
	l := o.Line(t)
	return l, serve(t, open(t, l.URL("")), nil)
}

func TestStoreFailureAbortsTransfer(t *testing.T) {
	l, s := line(t)
	at := s.URL + "/bundle/" + post(t, s.URL, installer(both)) + ".tar.gz"
	whole := ask(t, "GET", at, "")
	if whole.err != nil || whole.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", whole.Status, whole.err)
	}
	large := func(r *http.Request) bool {
		return r.Method == "GET" && strings.HasSuffix(r.URL.Path, "base-1.0.tar.gz")
	}
	for name, fault := range map[string]objects.Fault{
		"answers 503":             {Status: http.StatusServiceUnavailable},
		"connection breaks":       {CutAnswer: objects.After(100_000)},
		"object vanishes":         {Status: http.StatusNotFound},
		"object is another's now": {Status: http.StatusPreconditionFailed},
	} {
		t.Run(name, func(t *testing.T) {
			l.Plan(func(r *http.Request) objects.Fault {
				if large(r) {
					return fault
				}
				return objects.Fault{}
			})
			a := ask(t, "GET", at, "")
			if a.StatusCode == http.StatusOK && a.err == nil && len(a.body) == len(whole.body) && !bytes.Equal(a.body, whole.body) {
				t.Fatal("a wrong archive that looks complete")
			}
			if a.err == nil && a.StatusCode == http.StatusOK && fault.CutAnswer == nil {
				t.Errorf("%s, %d bytes, no error", a.Status, len(a.body))
			}
			if !bytes.HasPrefix(whole.body, a.body) && a.StatusCode == http.StatusOK {
				t.Error("what came is not the beginning of the bundle")
			}
			l.Plan(nil)
			rest := ask(t, "GET", at, "", "Range", fmt.Sprintf("bytes=%d-", len(whole.body)/3), "If-Range", whole.Header.Get("ETag"))
			if rest.StatusCode != http.StatusPartialContent || !bytes.Equal(rest.body, whole.body[len(whole.body)/3:]) {
				t.Errorf("after that: %s, %d bytes, %v", rest.Status, len(rest.body), rest.err)
			}
		})
	}
	l.Plan(func(*http.Request) objects.Fault { return objects.Fault{Status: http.StatusServiceUnavailable} })
	if a := ask(t, "GET", s.URL+"/readyz", ""); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("not ready: %s", a.Status)
	}
}

// TestHTTP2ClientNoticesAbortedTransfer, in which a connection outlives it.
func TestHTTP2ClientNoticesAbortedTransfer(t *testing.T) {
	o := objects.Start(t)
	fill(t, open(t, o.URL("")))
	l := o.Line(t)
	s := httptest.NewUnstartedServer(newServer(t, open(t, l.URL("")), nil))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	get := func(path string) (*http.Response, []byte, error) {
		t.Helper()
		resp, err := s.Client().Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return resp, data, err
	}
	made, err := s.Client().Post(s.URL+"/installer", "application/yaml", strings.NewReader(installer(both)))
	if err != nil {
		t.Fatal(err)
	}
	at, err := io.ReadAll(made.Body)
	_ = made.Body.Close()
	path := "/bundle/" + strings.TrimSpace(strings.TrimPrefix(string(at), s.URL+"/")) + ".tar.gz"
	resp, whole, wholeErr := get(path)
	if err != nil || wholeErr != nil || resp.ProtoMajor != 2 || int64(len(whole)) != resp.ContentLength {
		t.Fatalf("%s %s, %d bytes, %v, %v", resp.Proto, resp.Status, len(whole), err, wholeErr)
	}
	l.Plan(func(r *http.Request) objects.Fault {
		if r.Method == http.MethodGet {
			return objects.Fault{Status: http.StatusServiceUnavailable}
		}
		return objects.Fault{}
	})
	if resp, data, err := get(path); err == nil && resp.StatusCode == http.StatusOK {
		t.Errorf("%s with %d of %d bytes, and no error", resp.Status, len(data), len(whole))
	}
	l.Plan(nil)
	if _, data, err := get(path); err != nil || !bytes.Equal(data, whole) {
		t.Errorf("after that %d bytes, %v", len(data), err)
	}
}

func TestCurlResumesInterruptedDownload(t *testing.T) {
	s := folder(t)
	at := "/bundle/" + post(t, s.URL, installer(both)) + ".tar.gz"
	whole := ask(t, "GET", s.URL+at, "").body
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	places := make([]int64, 20)
	for i, random := 0, rand.New(rand.NewPCG(seed, 0)); i < len(places); i++ {
		places[i] = random.Int64N(int64(len(whole)))
	}
	slices.Sort(places)
	line := cutLine(t, s.Listener.Addr().String(), places)
	out := filepath.Join(t.TempDir(), "bundle.tar.gz")
	curl := func() error {
		return exec.CommandContext(t.Context(), "curl", "-fsS", "-C", "-", "-o", out, "http://"+line+at).Run()
	}
	for n, place := range places {
		if err := curl(); err == nil {
			t.Fatalf("cut %d, before byte %d: curl takes the download for whole", n, place)
		}
	}
	if err := curl(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil || sha256.Sum256(data) != sha256.Sum256(whole) {
		t.Errorf("%v: %d bytes with another digest", err, len(data))
	}
}

// cutLine is the address of a server whose connections break: together they carry no more than up to each of the offsets in
// turn, and then everything.
func cutLine(t *testing.T, target string, places []int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n, before := 0, int64(0); ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			most := int64(1 << 40)
			if n < len(places) {
				most, before = places[n]-before, places[n]
			}
			pass(client, target, most)
		}
	}()
	return l.Addr().String()
}

// pass connects a client to a server until so many bytes have been received.
func pass(client net.Conn, target string, most int64) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.CopyN(client, server, most)
}

// published makes a package with files of several modes. Every such package has some of these files.
func published(t *testing.T, s store.Store, name string) (size int) {
	t.Helper()
	dir := bundle.AddOnDir(name, "1.0")
	p := bundle.Package{Name: name, Version: "1.0", Platforms: []string{platform}, Files: []bundle.File{
		bundle.BytesFile(dir+"/Manifest", 0o644, nil), bundle.BytesFile(dir+"/install.sh", 0o755, []byte(name+"() { :; }\n")),
		bundle.BytesFile(dir+"/images/blobs/sha256/one", 0o644, layer), bundle.BytesFile(dir+"/images/blobs/sha256/two", 0o644, layer[:1_000_000]),
		bundle.BytesFile(dir+"/assets/program", 0o755, layer[:1_000_000]), bundle.BytesFile(dir+"/assets/"+name, 0o600, []byte(name)),
	}}
	var buf bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &buf, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	put(t, s, name+"-1.0.tar.gz", buf.Bytes())
	return buf.Len()
}

// unpack lets tar unpack an archive into a folder.
func unpack(t *testing.T, data []byte, dir string) {
	t.Helper()
	tar := exec.CommandContext(t.Context(), "tar", "xzf", "-", "-C", dir)
	tar.Stdin = bytes.NewReader(data)
	if out, err := tar.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("tar: %v %s", err, out)
	}
}

// tree returns the mode and the digest of each file below the add-ons of a folder.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "addons"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root)] = fmt.Sprintf("%s %x", info.Mode(), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestBundleStoresSharedContentOnce(t *testing.T) {
	s := open(t, t.TempDir())
	sum, names := 0, []string{"one", "two", "three"}
	spec := ""
	for _, name := range names {
		sum += published(t, s, name)
		spec += "  " + name + ": {version: '1.0'}\n"
	}
	front := serve(t, s, nil)
	id := post(t, front.URL, installer(spec))
	whole := ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz", "").body
	shared := (len(names) - 1) * (len(layer) + 2*1_000_000) // one link has one mode, so that the program exists beside its twin
	const own = 64 << 10                                    // the scripts, the Installer, the indexes
	if saved := sum - len(whole); saved > shared || saved < shared-own {
		t.Errorf("the bundle has %d bytes, its packages %d: %d less, and they share %d", len(whole), sum, saved, shared)
	}
	together, one := t.TempDir(), t.TempDir()
	unpack(t, whole, together)
	for _, name := range names {
		unpack(t, ask(t, "GET", front.URL+"/dist/"+name+"-1.0.tar.gz", "").body, one)
	}
	want, got := tree(t, one), tree(t, together)
	if !maps.Equal(got, want) || len(got) < 7*len(names) {
		t.Errorf("the bundle unpacks to\n%v\nand the packages to\n%v", got, want)
	}
}

func TestFolderAndBucketServeSameBundle(t *testing.T) {
	o := objects.Start(t)
	bucket, mirror := open(t, o.URL("")), filled(t)
	fill(t, bucket)
	one, two := serve(t, bucket, nil), serve(t, mirror, nil)
	id := post(t, one.URL, installer(both))
	if same := post(t, two.URL, installer(both)); same != id {
		t.Fatalf("the id is %s at one and %s at the other", id, same)
	}
	for _, at := range []string{"/bundle/" + id + ".tar.gz", "/bundle/" + id + "/packages/base-1.0.tar.gz", "/dist/user-2.0.tar.gz"} {
		begun := ask(t, "GET", one.URL+at, "")
		rest := ask(t, "GET", two.URL+at, "", "Range", "bytes=1000-", "If-Range", begun.Header.Get("ETag"))
		if rest.StatusCode != http.StatusPartialContent || !bytes.Equal(rest.body, begun.body[1000:]) {
			t.Errorf("%s: begun at one as %s, %d bytes, the rest from the other is %s, %d bytes", at, begun.Header.Get("ETag"), len(begun.body), rest.Status, len(rest.body))
		}
	}
}

// TestOnlyServedBundlesAreCached since those that are only looked at may be as many as there are people who try.
func TestOnlyServedBundlesAreCached(t *testing.T) {
	s := filled(t)
	front := serve(t, s, nil)
	id := post(t, front.URL, installer(both))
	kept := func() int {
		infos, err := s.List(t.Context(), "bundles/")
		if err != nil {
			t.Fatal(err)
		}
		return len(infos)
	}
	ask(t, "POST", front.URL+"/installer/validate", installer("  base: {version: '1.1'}\n"))
	ask(t, "GET", front.URL+"/compose?version.base=1.1", "")
	ask(t, "HEAD", front.URL+"/bundle/"+id+".tar.gz", "")
	ask(t, "GET", front.URL+"/bundle/"+id+"/packages/base-1.0.tar.gz", "")
	if n := kept(); n != 0 {
		t.Errorf("%d indexes are kept of bundles that nobody has", n)
	}
	ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz", "")
	ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz", "", "Range", "bytes=5-")
	if n := kept(); n != 1 {
		t.Errorf("%d indexes are kept of one bundle that was given out", n)
	}
}

// full is a store that takes no indexes of bundles while it is full.
type full struct {
	store.Store
	is atomic.Bool
}

func (f *full) Put(ctx context.Context, key string, v store.Value) (string, error) {
	if f.is.Load() && strings.HasPrefix(key, "bundles/") {
		return "", errors.New("no space left")
	}
	return f.Store.Put(ctx, key, v)
}

// TestIndexIsStoredAfterFailure: without it, a client could not request changes since its bundle.
func TestIndexIsStoredAfterFailure(t *testing.T) {
	s := &full{Store: filled(t)}
	front := serve(t, s, nil)
	id := post(t, front.URL, installer(both))
	s.is.Store(true)
	ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz", "")
	s.is.Store(false)
	given := ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz", "")
	if a := ask(t, "GET", front.URL+"/bundle/"+id+".tar.gz?since="+given.Header.Get("Sealift-Index"), ""); a.StatusCode != http.StatusOK {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

// busy is a store in which something happens just before a value is reopened.
type busy struct {
	store.Store
	armed     atomic.Bool
	meanwhile func()
}

func (b *busy) Get(ctx context.Context, key string) (store.Object, error) {
	o, err := b.Store.Get(ctx, key)
	return busyObject{o, b}, err
}

type busyObject struct {
	store.Object
	in *busy
}

func (o busyObject) Reopen(ctx context.Context) (store.Object, error) {
	if o.in.armed.CompareAndSwap(true, false) {
		o.in.meanwhile()
	}
	return o.Object.Reopen(ctx)
}

// TestBundleIsServedThoughEvictedFromCache among those that the server remembers, while it is being opened.
func TestBundleIsServedThoughEvictedFromCache(t *testing.T) {
	b := &busy{Store: filled(t)}
	s := serve(t, b, nil)
	bundles := make([]string, 40) // more than are remembered
	for n := range bundles {
		bundles[n] = s.URL + "/bundle/" + post(t, s.URL, installer(fmt.Sprintf("  base: {version: '1.0'}\n  user: {version: '2.0', size: %d}\n", n))) + ".tar.gz"
	}
	want := ask(t, "GET", bundles[0], "")
	b.meanwhile = func() {
		for _, other := range bundles[1:] {
			ask(t, "HEAD", other, "")
		}
	}
	b.armed.Store(true)
	got := ask(t, "GET", bundles[0], "")
	if got.StatusCode != http.StatusOK || b.armed.Load() || !bytes.Equal(got.body, want.body) {
		t.Errorf("%s, %d bytes, want %d", got.Status, len(got.body), len(want.body))
	}
}
