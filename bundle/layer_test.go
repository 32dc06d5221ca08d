package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
)

const blobs = "addons/app/1.0.0/images/blobs/sha256/"

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// leanLayer returns a lean layer, the layer itself, and what both unpack to.
func leanLayer(t testing.TB) (lean, layer bundle.File, unpacked []byte) {
	t.Helper()
	noise := make([]byte, 200_000)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(noise)
	unpacked = bytes.Repeat(noise, 3)
	var gz, packed bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write(unpacked); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	described, err := encoder(t).Encode(&packed, bytes.NewReader(unpacked))
	if err != nil {
		t.Fatal(err)
	}
	described.Blob = digestOf(gz.Bytes())
	layer = bundle.BytesFile(blobs+described.Blob, 0o644, gz.Bytes())
	lean = bundle.BytesFile(blobs+digestOf(packed.Bytes()), 0o644, packed.Bytes())
	lean.Layer = &described
	return lean, layer, unpacked
}

func encoder(t testing.TB) *bundle.LayerEncoder {
	t.Helper()
	e, err := bundle.NewLayerEncoder()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// leanPackage is a package with a lean layer.
func leanPackage(t testing.TB) (bundle.Package, bundle.File) {
	t.Helper()
	lean, _, _ := leanLayer(t)
	return bundle.Package{Name: "app", Version: "1.0.0", Platforms: []string{"linux/amd64"},
		Files: []bundle.File{bundle.BytesFile("addons/app/1.0.0/Manifest", 0o644, []byte("image app example.org/app:1\n")), lean}}, lean
}

// TestIndependentReaderUnpacksLeanLayers reads a lean package with the standard library, as docs/format.md describes it.
func TestIndependentReaderUnpacksLeanLayers(t *testing.T) {
	p, lean := leanPackage(t)
	_, layer, unpacked := leanLayer(t)
	inflated, err := gzip.NewReader(bytes.NewReader(write(t, p, bundle.WriteOptions{})))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(inflated); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var index struct {
		Format  string
		Entries []struct {
			Path, SHA256, Encoding string
			Size                   int64
			Layer                  *struct {
				Blob, DiffID, Compression string
				Size, Window              int64
			}
		}
	}
	if err := json.Unmarshal(files["addons/app/1.0.0/index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if index.Format != "sealift.dev/archive/v2" || len(index.Entries) != 2 {
		t.Errorf("format %s with %d files", index.Format, len(index.Entries))
	}
	for _, e := range index.Entries {
		content := files[e.Path]
		if digestOf(content) != e.SHA256 || int64(len(content)) != e.Size {
			t.Errorf("%s: other content", e.Path)
		}
		if (e.Layer != nil) != (e.Path == lean.Path) {
			t.Fatalf("%s: layer %+v", e.Path, e.Layer)
		}
		if e.Layer == nil {
			continue
		}
		if path.Base(e.Path) != e.SHA256 || e.Encoding != "stored" || e.Layer.Compression != "zstd" || e.Layer.Blob != layer.SHA256 {
			t.Errorf("%+v, %+v", e, e.Layer)
		}
		var h zstd.Header
		if err := h.Decode(content); err != nil || int64(h.WindowSize) > e.Layer.Window {
			t.Errorf("window %d, %v", h.WindowSize, err)
		}
		z, err := zstd.NewReader(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		z.Close()
		if err != nil || !bytes.Equal(got, unpacked) || digestOf(got) != e.Layer.DiffID || int64(len(got)) != e.Layer.Size {
			t.Errorf("unpacks to %d bytes, %v", len(got), err)
		}
	}
}

func TestLayerIsReadInBothForms(t *testing.T) {
	p, lean := leanPackage(t)
	_, _, unpacked := leanLayer(t)
	a := open(t, write(t, p, bundle.WriteOptions{}))
	r, err := a.OpenLayer(lean.Path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close(), a.Verify(t.Context()), a.VerifyLayers(t.Context())); err != nil || !bytes.Equal(got, unpacked) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if packed := read(t, a, lean.Path); digestOf(packed) != lean.SHA256 {
		t.Error("the compressed form has other content")
	}
	if e, ok := a.LeanLayer(blobs + lean.Layer.Blob); !ok || e.Path != lean.Path {
		t.Errorf("%+v, %v", e, ok)
	}
	if _, err := a.OpenLayer("addons/app/1.0.0/Manifest"); err == nil || !strings.Contains(err.Error(), "not a lean layer") {
		t.Errorf("opened as a layer: %v", err)
	}
}

func TestDamagedLeanLayersAreNamed(t *testing.T) {
	p, lean := leanPackage(t)
	data := write(t, p, bundle.WriteOptions{})
	e, _ := open(t, data).Entry(lean.Path)
	at := int64(len(data)) - 1024 - e.Length
	for n := range int64(40) {
		broken := bytes.Clone(data)
		broken[at+n*e.Length/41] ^= 0x10
		a := open(t, broken)
		for name, err := range map[string]error{"verify": a.Verify(t.Context()), "unpack": a.VerifyLayers(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), lean.Path) {
				t.Errorf("byte %d, %s: %v", n, name, err)
			}
		}
	}
}

func TestLayerWithWrongContentIsNamed(t *testing.T) {
	for name, change := range map[string]func(*bundle.Layer){
		"other content": func(l *bundle.Layer) { l.DiffID = digestOf(nil) },
		"longer":        func(l *bundle.Layer) { l.Size-- },
		"wider window":  func(l *bundle.Layer) { l.Window = 1 << 10 },
	} {
		p, lean := leanPackage(t)
		changed := *lean.Layer
		change(&changed)
		p.Files[1].Layer = &changed
		a := open(t, write(t, p, bundle.WriteOptions{}))
		if err := a.Verify(t.Context()); err != nil {
			t.Errorf("%s: its bytes: %v", name, err)
		}
		if err := a.VerifyLayers(t.Context()); err == nil || !strings.Contains(err.Error(), lean.Path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestImpossibleLeanLayersAreRefused(t *testing.T) {
	p, lean := leanPackage(t)
	index, _ := open(t, write(t, p, bundle.WriteOptions{})).Raw()
	for want, change := range map[string][2]string{
		`"sealift.dev/archive/v9" is not known`: {"archive/v2", "archive/v9"},
		"does not have":                         {"archive/v2", "archive/v1"},
		"unknown compression":                   {`"compression": "zstd"`, `"compression": "lzma"`},
		"impossible size":                       {fmt.Sprintf(`"window": %d`, lean.Layer.Window), `"window": 67108864`},
		"without the digests":                   {lean.Layer.DiffID, "x"},
		"not named after its digest":            {"images/blobs/sha256/", "images/blobs/sha257/"},
		"deflated":                              {`"encoding": "stored"`, `"encoding": "deflate"`},
	} {
		if !bytes.Contains(index, []byte(change[0])) {
			t.Fatalf("the index has no %s", change[0])
		}
		changed := bytes.ReplaceAll(index, []byte(change[0]), []byte(change[1]))
		if _, err := bundle.NewUnpacked(changed, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestLeanLayersReplaceThoseOfSignedPackages assembles a bundle from a signed package with plain layers.
func TestLeanLayersReplaceThoseOfSignedPackages(t *testing.T) {
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	lean, layer, _ := leanLayer(t)
	of := bundle.Package{Name: "app", Version: "1.0.0", Platforms: []string{"linux/amd64"},
		Files: []bundle.File{layer, bundle.BytesFile(blobs+"../other", 0o644, []byte("{}"))}}
	of.Files[1].Path = path.Clean(of.Files[1].Path)
	signed := open(t, write(t, of, bundle.WriteOptions{Key: key}))
	companion := of
	companion.Files = []bundle.File{lean}
	made := bundle.Bundle{Packages: []*bundle.Archive{signed}, Lean: []*bundle.Archive{open(t, write(t, companion, bundle.WriteOptions{}))}}
	plain := bundle.Bundle{Packages: made.Packages}

	whole := assembled(t, made)
	if _, ok := whole.Entry(layer.Path); ok || whole.Index.Format != bundle.FormatLean {
		t.Errorf("format %s, with the plain layer %v", whole.Index.Format, ok)
	}
	if trust, err := whole.VerifySignature(public); err != nil || len(trust.Packages) != 1 || trust.Packages[0].Signer == "" {
		t.Errorf("%+v, %v", trust, err)
	}
	if err := errors.Join(whole.Verify(t.Context()), whole.VerifyLayers(t.Context())); err != nil {
		t.Error(err)
	}
	if dir := unpack(t, bytesOf(t, made)); dir == "" {
		t.Error("tar unpacked nothing")
	}

	for name, row := range map[string]struct {
		old  bundle.Bundle
		form string // that is left out
	}{"a plain bundle": {plain, layer.Path}, "a lean bundle": {made, lean.Path}} {
		old := assembled(t, row.old)
		since, err := old.Since()
		if err != nil {
			t.Fatal(err)
		}
		adds := made
		adds.Since = since
		added := assembled(t, adds)
		if e, ok := added.Entry(row.form); !ok || e.Encoding != bundle.InBase {
			t.Errorf("since %s: %+v, %v", name, e, ok)
		}
		if err := added.WithBase(old); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(added.Verify(t.Context()), added.VerifyLayers(t.Context())); err != nil {
			t.Errorf("since %s: %v", name, err)
		}
		if index, err := added.UnpackedIndex(); err != nil || !bytes.Contains(index, []byte(added.Index.Format)) {
			t.Errorf("since %s: %v", name, err)
		}
	}

	foreign := *lean.Layer
	foreign.Blob = digestOf([]byte("another layer"))
	lean.Layer = &foreign
	companion.Files = []bundle.File{lean}
	made.Lean = []*bundle.Archive{open(t, write(t, companion, bundle.WriteOptions{}))}
	if kept := assembled(t, made); kept.Index.Format != bundle.Format {
		t.Error("the lean form of another layer is in the bundle")
	}
}

// TestPlainLayersServeLeanPackages adds a signed package with lean layers to a bundle that has them as the manifests name them, and then
// another bundle to a cluster that has both.
func TestPlainLayersServeLeanPackages(t *testing.T) {
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	of, lean := leanPackage(t)
	_, layer, _ := leanLayer(t)
	signed := open(t, write(t, of, bundle.WriteOptions{Key: key}))
	before := of
	before.Files = []bundle.File{of.Files[0], layer}
	old := assembled(t, bundle.Bundle{Packages: []*bundle.Archive{open(t, write(t, before, bundle.WriteOptions{}))}})
	since, err := old.Since()
	if err != nil {
		t.Fatal(err)
	}
	made := bundle.Bundle{Packages: []*bundle.Archive{signed}, Since: since}
	added := assembled(t, made)
	if e, ok := added.Entry(layer.Path); !ok || e.Encoding != bundle.InBase || e.Size != layer.Size || e.Layer != nil {
		t.Errorf("the layer is %+v, %v", e, ok)
	}
	if _, ok := added.Entry(lean.Path); ok {
		t.Error("the lean layer is carried")
	}
	if err := added.WithBase(old); err != nil {
		t.Fatal(err)
	}
	if err := added.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if trust, err := added.VerifySignature(public); err != nil || len(trust.Packages) != 1 || trust.Packages[0].Signer == "" {
		t.Errorf("%+v, %v", trust, err)
	}

	made.Since = bundle.SinceInstalled(added.Digest, []bundle.InstalledPackage{{Archive: signed, Lean: added.Index.LeanLayers(added.Index.Packages[0])}})
	if e, ok := assembled(t, made).Entry(lean.Path); !ok || e.Encoding == bundle.InBase {
		t.Errorf("a cluster that lacks the lean layer is to have %+v, %v", e, ok)
	}
}

func bytesOf(t *testing.T, b bundle.Bundle) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func assembled(t *testing.T, b bundle.Bundle) *bundle.Archive {
	t.Helper()
	return open(t, bytesOf(t, b))
}

func FuzzLayer(f *testing.F) {
	lean, _, _ := leanLayer(f)
	r, err := lean.Open()
	if err != nil {
		f.Fatal(err)
	}
	seed, err := io.ReadAll(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed[:1000], int64(1<<20))
	var small bytes.Buffer
	if _, err := encoder(f).Encode(&small, strings.NewReader("a layer, a layer, a layer")); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes(), int64(25))
	f.Add([]byte{}, int64(1))
	f.Add([]byte("\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff"), int64(1))
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		size &= 1<<20 - 1
		name := blobs + digestOf(data)
		index := fmt.Sprintf(`{"format":"sealift.dev/archive/v2","kind":"package","packages":[{"name":"app","version":"1.0.0"}],"base":"","entries":[{"path":%q,"mode":"0644",`+
			`"size":%d,"sha256":%q,"encoding":"stored","offset":0,"length":%d,"header":512,"layer":{"blob":%[3]q,"diffID":%[3]q,"size":%[5]d,"compression":"zstd","window":1048576}}]}`,
			name, len(data), digestOf(data), storedLength(len(data)), size)
		a, err := bundle.NewUnpacked([]byte(index), nil, func(bundle.Entry) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		if err != nil {
			t.Fatal(err)
		}
		layer, err := a.OpenLayer(name)
		if err != nil {
			t.Fatal(err)
		}
		defer layer.Close()
		if n, err := io.Copy(io.Discard, layer); err == nil && n != size || n > size+1<<20 {
			t.Errorf("%d bytes of %d, %v", n, size, err)
		}
	})
}

// storedLength is the length of the member of a stored file with a tar header of one block.
func storedLength(size int) int {
	payload := 512 + (size+511)/512*512
	return 10 + (payload+65534)/65535*5 + payload + 8
}
