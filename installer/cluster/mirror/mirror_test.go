package mirror_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/installer/cluster/mirror"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// memory is content in memory: blobs by their sha256, and images by their names.
type memory struct {
	blobs map[string][]byte
	names map[string]ocispec.Descriptor
}

type blob struct{ *bytes.Reader }

func (blob) Close() error { return nil }

func (m memory) Offered(_ context.Context, repository string) (map[string]ocispec.Descriptor, error) {
	found := map[string]ocispec.Descriptor{}
	for ref, target := range m.names {
		if ocilayout.Repository(ref) == repository {
			found[ref] = target
		}
	}
	return found, nil
}

func (m memory) Blob(_ context.Context, sha256 string) (content.ReaderAt, error) {
	data, ok := m.blobs[sha256]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return blob{bytes.NewReader(data)}, nil
}

// Form implements mirror.Content: this content has no lean layers.
func (m memory) Form(_ context.Context, _, layer ocispec.Descriptor) (ocispec.Descriptor, error) {
	if _, ok := m.blobs[layer.Digest.Encoded()]; !ok {
		return layer, fs.ErrNotExist
	}
	return layer, nil
}

func (m memory) add(data []byte) digest.Digest {
	d := digest.FromBytes(data)
	m.blobs[d.Encoded()] = data
	return d
}

// image adds an image, with its blobs.
func (m memory) image(t *testing.T, image v1.Image) ocispec.Descriptor {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		r, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		m.add(data)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	m.add(config)
	return m.document(t, image)
}

// document adds an index or a manifest alone.
func (m memory) document(t *testing.T, d partial.Describable) ocispec.Descriptor {
	t.Helper()
	data, err := d.(interface{ RawManifest() ([]byte, error) }).RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	mediaType, err := d.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	return ocispec.Descriptor{MediaType: string(mediaType), Digest: m.add(data), Size: int64(len(data))}
}

func randomImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := random.Image(10_000, 2)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// site is a server with two tags of an image for two platforms, of which one is there, and with a signature attached to it.
type site struct {
	memory
	url              string
	log              *fixture.Buffer
	image, elsewhere v1.Image
	index            v1.ImageIndex
	target           ocispec.Descriptor
	signature        digest.Digest
}

const busybox = "docker.io/library/busybox"

func serve(t *testing.T) *site {
	t.Helper()
	s := &site{memory: memory{map[string][]byte{}, map[string]ocispec.Descriptor{}}, image: randomImage(t), elsewhere: randomImage(t), log: new(fixture.Buffer)}
	s.memory.image(t, s.image)
	s.index = mutate.AppendManifests(mutate.IndexMediaType(random0(t), types.OCIImageIndex),
		mutate.IndexAddendum{Add: s.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: s.elsewhere, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	s.target = s.document(t, s.index)
	s.names[busybox+":1.36"], s.names[busybox+":latest"], s.names[busybox+"@"+s.target.Digest.String()] = s.target, s.target, s.target
	s.names[busybox+":1.37@"+s.target.Digest.String()] = s.target // the name of a package's image that is pinned
	subject, err := v1.NewHash(s.target.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	signature, ok := mutate.Subject(mutate.Annotations(mutate.ConfigMediaType(randomImage(t), "application/vnd.example.signature"), map[string]string{"by": "a test"}).(v1.Image),
		v1.Descriptor{MediaType: types.OCIImageIndex, Digest: subject, Size: s.target.Size}).(v1.Image)
	if !ok {
		t.Fatal("a signature is an image")
	}
	of := s.memory.image(t, signature)
	s.signature = of.Digest
	s.names[busybox+":sha256-"+s.target.Digest.Encoded()+".sig"] = of
	s.names["registry.k8s.io/pause:3.10"] = s.memory.image(t, randomImage(t))
	server := httptest.NewServer(mirror.Server{Content: s.memory, Log: slog.New(slog.NewTextHandler(s.log, nil))})
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// random0 is an index without manifests.
func random0(t *testing.T) v1.ImageIndex {
	t.Helper()
	index, err := random.Index(1, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// answer is what the server answers.
type answer struct {
	status int
	body   string
	header http.Header
}

func (s *site) ask(t *testing.T, method, path string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, string(body), response.Header}
}

// TestClientsPull pulls by tag and by digest with another program's client, and compares every byte.
func TestClientsPull(t *testing.T) {
	s := serve(t)
	want, err := s.image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(s.url, "http://")
	for _, ref := range []string{":1.36", ":latest", "@" + s.target.Digest.String(), "@" + want.String()} {
		parsed, err := name.ParseReference(host + "/" + busybox + ref)
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(parsed, remote.WithContext(t.Context()), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
		if err == nil {
			err = validate.Image(image)
		}
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if got, err := image.Digest(); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", ref, got, err, want)
		}
	}
	repository, err := name.NewRepository(host + "/" + busybox)
	if err != nil {
		t.Fatal(err)
	}
	list, err := remote.List(repository, remote.WithContext(t.Context()))
	if diff := cmp.Diff([]string{"1.36", "latest", "sha256-" + s.target.Digest.Encoded() + ".sig"}, list); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	attached, err := remote.Referrers(repository.Digest(s.target.Digest.String()), remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := attached.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest.String() != s.signature.String() ||
		manifest.Manifests[0].ArtifactType != "application/vnd.example.signature" || manifest.Manifests[0].Annotations["by"] != "a test" {
		t.Errorf("referrers: %+v, %v", manifest, err)
	}
}

// TestAnswers asks for what clients may have, and for what they may not.
func TestAnswers(t *testing.T) {
	s := serve(t)
	layers, err := s.image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	data := string(s.blobs[layer.Hex])
	away, err := s.elsewhere.Digest()
	if err != nil {
		t.Fatal(err)
	}
	pause := s.names["registry.k8s.io/pause:3.10"].Digest
	absent := digest.FromString("nothing has it").String()
	index := string(s.blobs[s.target.Digest.Encoded()])
	for _, row := range []struct {
		method, path string
		header       []string
		status       int
		want         string // the body, or the code of an error
	}{
		{"GET", "/v2/", nil, 200, "{}"},
		{"HEAD", "/v2/", nil, 200, ""},
		{"GET", "/v2/library/busybox/manifests/1.36?ns=docker.io", nil, 200, index},
		{"GET", "/v2/busybox/manifests/1.36?ns=docker.io", nil, 200, index},
		{"HEAD", "/v2/library/busybox/manifests/1.36?ns=docker.io", nil, 200, ""},
		{"GET", "/v2/library/busybox/manifests/" + s.target.Digest.String() + "?ns=docker.io", nil, 200, index},
		{"GET", "/v2/docker.io/library/busybox/manifests/latest", nil, 200, index},
		{"GET", "/v2/library/busybox/blobs/" + layer.String() + "?ns=docker.io", nil, 200, data},
		{"HEAD", "/v2/library/busybox/blobs/" + layer.String() + "?ns=docker.io", nil, 200, ""},
		{"GET", "/v2/library/busybox/blobs/" + layer.String() + "?ns=docker.io", []string{"Range", "bytes=10-19"}, 206, data[10:20]},
		{"GET", "/v2/library/busybox/blobs/" + layer.String() + "?ns=docker.io", []string{"Range", "bytes=100-"}, 206, data[100:]},
		{"GET", "/v2/library/busybox/blobs/" + layer.String() + "?ns=docker.io", []string{"Range", fmt.Sprintf("bytes=%d-", len(data))}, 416, "invalid range: failed to overlap\n"},
		{"GET", "/v2/library/busybox/blobs/" + layer.String() + "?ns=docker.io", []string{"If-None-Match", `"` + layer.String() + `"`}, 304, ""},
		{"GET", "/v2/library/busybox/tags/list?ns=docker.io&n=2", nil, 200, `{"name":"docker.io/library/busybox","tags":["1.36","latest"]}`},
		{"GET", "/v2/library/busybox/tags/list?ns=docker.io&n=1&last=1.36", nil, 200, `{"name":"docker.io/library/busybox","tags":["latest"]}`},
		{"GET", "/v2/library/busybox/tags/list?ns=docker.io&n=0", nil, 200, `{"name":"docker.io/library/busybox","tags":[]}`},

		{"GET", "/v2/library/busybox/tags/list?ns=docker.io&n=-1", nil, 400, "UNSUPPORTED"},
		{"GET", "/v2/library/busybox/manifests/2?ns=docker.io", nil, 404, "MANIFEST_UNKNOWN"},
		{"HEAD", "/v2/library/busybox/manifests/2?ns=docker.io", nil, 404, ""},
		{"GET", "/v2/library/busybox/manifests/" + away.String() + "?ns=docker.io", nil, 404, "MANIFEST_UNKNOWN"},
		{"GET", "/v2/library/busybox/manifests/" + absent + "?ns=docker.io", nil, 404, "MANIFEST_UNKNOWN"},
		{"GET", "/v2/library/busybox/manifests/1.36?ns=ghcr.io", nil, 404, "NAME_UNKNOWN"},
		{"GET", "/v2/library/busybox/manifests/1.36?ns=docker.io/library", nil, 400, "NAME_INVALID"},
		{"GET", "/v2/library/Busybox/manifests/1.36?ns=docker.io", nil, 400, "NAME_INVALID"},
		{"GET", "/v2/library/busybox/manifests/..?ns=docker.io", nil, 400, "DIGEST_INVALID"},
		{"GET", "/v2/library/busybox/blobs/" + absent + "?ns=docker.io", nil, 404, "BLOB_UNKNOWN"},
		{"GET", "/v2/library/busybox/blobs/sha256:12?ns=docker.io", nil, 400, "DIGEST_INVALID"},
		{"GET", "/v2/library/busybox/blobs/" + pause.String() + "?ns=docker.io", nil, 404, "BLOB_UNKNOWN"}, // of another repository
		{"GET", "/v2/library/busybox/manifests/" + pause.String() + "?ns=docker.io", nil, 404, "MANIFEST_UNKNOWN"},
		{"GET", "/v2/library/busybox/uploads/1?ns=docker.io", nil, 404, "UNSUPPORTED"},
		{"GET", "/v2/_catalog", nil, 404, "UNSUPPORTED"},
		{"POST", "/v2/library/busybox/blobs/uploads/?ns=docker.io", nil, 405, "UNSUPPORTED"},
		{"PUT", "/v2/library/busybox/manifests/1.36?ns=docker.io", nil, 405, "UNSUPPORTED"},
		{"DELETE", "/v2/library/busybox/manifests/1.36?ns=docker.io", nil, 405, "UNSUPPORTED"},
	} {
		got := s.ask(t, row.method, row.path, row.header...)
		if code := codeOf(got.body); code != "" {
			got.body = code
		}
		if got.status != row.status || got.body != row.want {
			t.Errorf("%s %s %v: %d %.200q, want %d %.200q", row.method, row.path, row.header, got.status, got.body, row.status, row.want)
		}
	}
}

// codeOf returns the code of an error.
func codeOf(body string) string {
	var said struct {
		Errors []struct{ Code string }
	}
	if json.Unmarshal([]byte(body), &said) != nil || len(said.Errors) != 1 {
		return ""
	}
	return said.Errors[0].Code
}

// TestHeaders compares what clients learn without a body.
func TestHeaders(t *testing.T) {
	s := serve(t)
	for _, method := range []string{"GET", "HEAD"} {
		got := s.ask(t, method, "/v2/library/busybox/manifests/1.36?ns=docker.io").header
		want := map[string]string{
			"Content-Type": "application/vnd.oci.image.index.v1+json", "Content-Length": strconv.FormatInt(s.target.Size, 10),
			"Docker-Content-Digest": s.target.Digest.String(), "Docker-Distribution-Api-Version": "registry/2.0",
		}
		for key, value := range want {
			if got.Get(key) != value {
				t.Errorf("%s: %s is %q, want %q", method, key, got.Get(key), value)
			}
		}
	}
	link := s.ask(t, "GET", "/v2/library/busybox/tags/list?ns=docker.io&n=2").header.Get("Link")
	next, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	if at, err := url.Parse(next); !ok || err != nil || at.Query().Get("ns") != "docker.io" {
		t.Fatalf("Link is %q: %v", link, err)
	}
	if rest := s.ask(t, "GET", next); rest.body != `{"name":"docker.io/library/busybox","tags":["sha256-`+s.target.Digest.Encoded()+`.sig"]}` || rest.header.Get("Link") != "" {
		t.Errorf("%+v", rest)
	}
	filtered := s.ask(t, "GET", "/v2/library/busybox/referrers/"+s.target.Digest.String()+"?ns=docker.io&artifactType=other")
	if filtered.header.Get("OCI-Filters-Applied") != "artifactType" || !strings.Contains(filtered.body, `"manifests":[]`) {
		t.Errorf("%+v", filtered)
	}
}

// TestDamagedManifestIsNotSent changes a manifest behind its digest.
func TestDamagedManifestIsNotSent(t *testing.T) {
	s := serve(t)
	s.blobs[s.target.Digest.Encoded()] = bytes.Replace(s.blobs[s.target.Digest.Encoded()], []byte("amd64"), []byte("s390x"), 1)
	got := s.ask(t, "GET", "/v2/library/busybox/manifests/1.36?ns=docker.io")
	if got.status != 500 || got.header.Get("Docker-Content-Digest") != "" || !strings.Contains(s.log.String(), "its name is not the digest of its content") {
		t.Errorf("%+v\n%s", got, s.log)
	}
	if got := s.ask(t, "GET", "/v2/pause/manifests/3.10?ns=registry.k8s.io"); got.status != 200 {
		t.Errorf("another image: %d", got.status)
	}
	if got := s.ask(t, "GET", "/v2/library/busybox/manifests/"+s.signature.String()+"?ns=docker.io"); got.status != 200 {
		t.Errorf("an image of the same repository: %d", got.status)
	}
}

// TestTagsOfOneRepository has repositories whose names begin alike.
func TestTagsOfOneRepository(t *testing.T) {
	s := serve(t)
	s.names["docker.io/library/busybox-extra:9"], s.names["docker.io/library/busybox/more:8"] = s.target, s.target
	got := s.ask(t, "GET", "/v2/library/busybox/tags/list?ns=docker.io")
	var list struct{ Tags []string }
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || slices.Contains(list.Tags, "9") || slices.Contains(list.Tags, "8") || len(list.Tags) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
