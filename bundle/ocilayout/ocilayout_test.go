package ocilayout_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

const (
	dir      = "addons/demo/1.0/images"
	manifest = ocispec.MediaTypeImageManifest
	index    = ocispec.MediaTypeImageIndex
	config   = ocispec.MediaTypeImageConfig
)

// blobs are the documents of a layout, by their digests.
type blobs map[digest.Digest]string

func (b blobs) add(text string) digest.Digest {
	d := digest.FromString(text)
	b[d] = text
	return d
}

func describe(mediaType string, d digest.Digest) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":1}`, mediaType, d)
}

// image adds the manifest of an image with one layer that the layout lacks.
func (b blobs) image(id string) digest.Digest {
	c := b.add(fmt.Sprintf(`{"rootfs":{"diff_ids":[%q]}}`, digest.FromString(id)))
	return b.add(fmt.Sprintf(`{"mediaType":%q,"config":%s,"layers":[%s]}`, manifest, describe(config, c), describe(ocispec.MediaTypeImageLayer, digest.FromString(id))))
}

func (b blobs) index(children ...string) digest.Digest {
	return b.add(fmt.Sprintf(`{"mediaType":%q,"manifests":[%s]}`, index, strings.Join(children, ",")))
}

func (b blobs) files(list string) []bundle.File {
	files := []bundle.File{bundle.BytesFile(dir+"/index.json", 0o644, []byte(list))}
	for d, text := range b {
		files = append(files, bundle.BytesFile(dir+"/"+ocilayout.Path(d), 0o644, []byte(text)))
	}
	return files
}

// layout returns a layout with one image, read out of an archive.
func (b blobs) layout(t testing.TB, target string) *ocilayout.Layout {
	t.Helper()
	list := fmt.Sprintf(`{"manifests":[%s]}`, strings.TrimSuffix(target, "}")+`,"annotations":{"org.opencontainers.image.ref.name":"example.org/app:1"}}`)
	l, err := ocilayout.Open(archive(t, bundle.Package{Name: "demo", Version: "1.0", Files: b.files(list)}), dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func archive(t testing.TB, p bundle.Package) *bundle.Archive {
	t.Helper()
	var out bytes.Buffer
	p.Platforms = []string{"linux/amd64"}
	if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDocumentsBelowImageAreRead(t *testing.T) {
	b := blobs{}
	one, two, other := b.image("one"), b.image("two"), digest.FromString("of another platform")
	inner := b.index(describe(manifest, two), describe(manifest, other))
	l := b.layout(t, describe(index, b.index(describe(manifest, one), describe(index, inner), describe(manifest, other))))
	if len(l.Images) != 1 || l.Images[0].Ref != "example.org/app:1" {
		t.Fatalf("%+v", l.Images)
	}
	m, err := l.Read(l.Images[0].Target)
	if err != nil {
		t.Fatal(err)
	}
	var got []digest.Digest
	for _, one := range m.All() {
		got = append(got, one.Digest)
	}
	if want := []digest.Digest{m.Digest, one, inner, two}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if !m.Index || m.Absent != 1 || m.Children[1].Absent != 1 || m.Children[0].Index || len(m.Blobs()) != 4 {
		t.Errorf("%+v", m)
	}
	ids, err := l.DiffIDs(m.Children[0])
	if err != nil || len(ids) != 1 || ids[0] != digest.FromString("one") {
		t.Errorf("%v, %v", ids, err)
	}
	if ids, err := l.DiffIDs(m); ids != nil || err != nil {
		t.Errorf("of an index: %v, %v", ids, err)
	}
}

func TestFilesAreReadLikeArchive(t *testing.T) {
	b := blobs{}
	one := b.image("one")
	list := strings.TrimSuffix(describe(manifest, one), "}") + `,"annotations":{"io.containerd.image.name":"a:1","org.opencontainers.image.ref.name":"1"}}`
	l, err := ocilayout.OfFiles(b.files(`{"manifests":[`+list+`]}`), dir)
	if err != nil || l.Images[0].Ref != "a:1" {
		t.Fatal(err)
	}
	if m, err := l.Read(l.Images[0].Target); err != nil || len(m.Layers) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := l.Read(ocispec.Descriptor{Digest: digest.FromString("missing")}); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ocilayout.ErrDocument) {
		t.Errorf("a missing manifest: %v", err)
	}
	if l, err := ocilayout.OfFiles(nil, dir); err != nil || l.Images != nil {
		t.Errorf("a folder without a layout: %+v, %v", l, err)
	}
}

func TestHostileDocumentsAreRefused(t *testing.T) {
	b := blobs{}
	one := b.image("one")
	nested := describe(manifest, one)
	for range 10 {
		nested = describe(index, b.index(nested))
	}
	bomb := describe(manifest, one) // 10 to the 6th documents
	for range 6 {
		bomb = describe(index, b.index(strings.Split(strings.Repeat(bomb+"\n", 10), "\n")[:10]...))
	}
	wrong := digest.FromString("another content")
	b[wrong] = b[one]
	for want, target := range map[string]string{
		"more than 8 indexes":      nested,
		"more than 4096 documents": bomb,
		"is not the digest":        describe(manifest, wrong),
		"is not JSON":              describe(manifest, b.add("garbage")),
		"unknown media type":       describe("application/json", b.add(`{"config":`+describe(config, one)+`}`)),
		"fields of a manifest":     describe(index, b.add(`{"manifests":[],"layers":[`+describe(config, one)+`]}`)),
		"fields of an index":       describe(manifest, b.add(`{"config":`+describe(config, one)+`,"manifests":[`+describe(manifest, one)+`]}`)),
		"names the digest":         describe(manifest, b.add(`{"config":{"digest":"sha256:../../x"}}`)),
		"-1 bytes":                 describe(manifest, b.add(`{"config":{"digest":"`+one.String()+`","size":-1}}`)),
		"70000 objects":            describe(index, b.add(`{"manifests":[`+strings.Repeat(`{},`, 69998)+`{}]}`)),
	} {
		l := b.layout(t, target)
		if _, err := l.Read(l.Images[0].Target); !errors.Is(err, ocilayout.ErrDocument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	large := b.layout(t, describe(index, b.add(strings.Repeat(" ", 5<<20))))
	if _, err := large.Read(large.Images[0].Target); err == nil {
		t.Error("a document of 5 MiB is read")
	}
	for _, list := range []string{`{"manifests":[` + describe(manifest, one) + `]}`, "garbage", `{"manifests":[{"digest":"x"}]}`} {
		if _, err := ocilayout.OfFiles(b.files(list), dir); err == nil {
			t.Errorf("the list %q is read", list)
		}
	}
}

// TestOnlyImagesHaveDiffIDs has documents with layers that are not those of an image, and configurations that do not fit.
func TestOnlyImagesHaveDiffIDs(t *testing.T) {
	b := blobs{}
	id := digest.FromString("x")
	layers := `"layers":[` + describe(ocispec.MediaTypeImageLayer, id) + `]`
	of := func(mediaType string, d digest.Digest) digest.Digest {
		return b.add(fmt.Sprintf(`{"mediaType":%q,"config":%s,%s}`, manifest, describe(mediaType, d), layers))
	}
	good := fmt.Sprintf(`{"rootfs":{"diff_ids":[%q]}}`, id)
	for name, row := range map[string]struct {
		target digest.Digest
		broken bool
	}{
		"an attestation":              {of(ocispec.MediaTypeEmptyJSON, b.add(good)), false},
		"a configuration left out":    {of(config, digest.FromString("left out")), false},
		"another number of layers":    {of(config, b.add(`{}`)), false},
		"a configuration of garbage":  {of(config, b.add(`garbage`)), true},
		"a digest that is not one":    {of(config, b.add(`{"rootfs":{"diff_ids":["x"]}}`)), true},
		"a configuration of Docker's": {of("application/vnd.docker.container.image.v1+json", b.add(good+" ")), false},
	} {
		l := b.layout(t, describe(manifest, row.target))
		m, err := l.Read(l.Images[0].Target)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := l.DiffIDs(m)
		if errors.Is(err, ocilayout.ErrDocument) != row.broken || (err == nil) == row.broken || (ids != nil) != strings.Contains(name, "Docker") {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
	}
}

func TestPackageOfDockerArchivesIsNamed(t *testing.T) {
	p := bundle.Package{Name: "demo", Version: "1.0", Files: []bundle.File{bundle.BytesFile(dir+"/x.tar.gz", 0o644, nil)}}
	a := archive(t, p)
	if _, err := ocilayout.OfPackage(a, a.Index.Packages[0]); err != nil {
		t.Errorf("a package without images: %v", err)
	}
	p.Contents.Images = []bundle.Image{{Ref: "a:1", Digest: digest.FromString("a").String()}}
	a = archive(t, p)
	if _, err := ocilayout.OfPackage(a, a.Index.Packages[0]); err == nil || !strings.Contains(err.Error(), "demo 1.0: has its images as docker-archives") {
		t.Errorf("%v", err)
	}
}

// FuzzRead reads a document of an image as the first one of a tree.
func FuzzRead(f *testing.F) {
	b := blobs{}
	one := b.image("one")
	f.Add(b[one])
	f.Add(b[b.index(describe(manifest, one), describe(manifest, digest.FromString("absent")))])
	f.Add(`{"manifests":null,"config":{"digest":"sha256:"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		own := blobs{one: b[one]}
		own.add(text)
		l, err := ocilayout.OfFiles(own.files(`{}`), dir)
		if err != nil {
			t.Fatal(err)
		}
		m, err := l.Read(ocispec.Descriptor{Digest: digest.FromString(text)})
		if err != nil {
			if !errors.Is(err, ocilayout.ErrDocument) {
				t.Errorf("not named as damage: %v", err)
			}
			return
		}
		for _, one := range m.All() {
			if _, err := l.DiffIDs(one); err != nil && !errors.Is(err, ocilayout.ErrDocument) {
				t.Error(err)
			}
			if name := l.Blob(one.Digest); !strings.HasPrefix(name, dir+"/blobs/sha256/") && !strings.HasPrefix(name, dir+"/blobs/sha512/") {
				t.Errorf("path %q", name)
			}
		}
		for _, d := range m.Blobs() {
			if strings.Contains(l.Blob(d.Digest), "..") {
				t.Errorf("path %q", l.Blob(d.Digest))
			}
		}
	})
}
