package mirror_test

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/installer/cluster/mirror"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

const greeting = "registry.example.com/team/greeting"

// loaded runs a containerd with the image greeting:1 from a package and others that no bundle brought, and serves it.
func loaded(t *testing.T) (_ *containerd.Containerd, _ string, want ocispec.Descriptor) {
	t.Helper()
	c := containerd.StartForTest(t)
	r, address := serving(t, c)
	file := filepath.Join(t.TempDir(), "app.tar.gz")
	imagepackage.Write(t, file, greeting+":1")
	a, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	layout := load(t, r, a)
	var private bytes.Buffer
	tag, err := name.NewTag("registry.example.com/team/private:1")
	if err == nil {
		err = tarball.Write(tag, platform(t, randomImage(t)), &private)
	}
	if err == nil {
		_, err = r.Import(t.Context(), &private) // as the kubelet does with a password
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, address, layout.Images[0].Target
}

// platform makes an image of this host's platform.
func platform(t *testing.T, image v1.Image) v1.Image {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", "amd64"
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// TestContainerdPullsFromContainerd pulls from one containerd into another by hosts.toml, under the image's own name.
func TestContainerdPullsFromContainerd(t *testing.T) {
	_, address, want := loaded(t)
	other := containerd.StartForTest(t)
	hosts := hostsFolder(t, address)
	ctr := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), other.Ctr, append([]string{"--address", other.Socket, "--namespace", "k8s.io"}, args...)...).CombinedOutput()
		return string(out), err
	}
	for _, ref := range []string{greeting + ":1", greeting + "@" + want.Digest.String()} {
		if out, err := ctr("images", "pull", "--hosts-dir", hosts, ref); err != nil {
			t.Fatalf("pull %s: %v\n%s", ref, err, out)
		}
		if out, err := ctr("images", "list", "name=="+ref); err != nil || !strings.Contains(out, want.Digest.String()) {
			t.Errorf("%s is not %s: %v\n%s", ref, want.Digest, err, out)
		}
	}
	if out, err := ctr("images", "pull", "--hosts-dir", hosts, "registry.example.com/team/private:1"); err == nil {
		t.Errorf("an image that no bundle brought was pulled:\n%s", out)
	}
}

// TestContainerdImagesAreComplete pulls with another client, and compares each layer with its digest and its diff ID.
func TestContainerdImagesAreComplete(t *testing.T) {
	_, address, _ := loaded(t)
	ref, err := name.ParseReference(address + "/" + greeting + ":1")
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()))
	if err == nil {
		err = validate.Image(image)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestLeanImagesAreComplete pulls an image whose layers are in containerd in another compression: by tag, and by the digest of upstream's index.
func TestLeanImagesAreComplete(t *testing.T) {
	const ref = "registry.example.com/team/tools:1"
	r, address := serving(t, containerd.StartForTest(t))
	noise := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{5}).Read(noise)
	data := fixture.Layer(t, [2]string{"bin/tool", strings.Repeat(string(noise), 4)})
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(platform(t, randomImage(t)), layer)
	if err != nil {
		t.Fatal(err)
	}
	load(t, r, leanBundle(t, ref, image))
	upstreams, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(address + "/" + ref)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(parsed, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	unpacksToDiffIDs(t, pulled)
	manifest, err := pulled.Manifest()
	if err != nil || manifest.Annotations["sealift.dev/manifest"] != upstreams.String() {
		t.Errorf("%+v, %v", manifest, err)
	}
	own, err := pulled.Digest()
	if err != nil || own == upstreams {
		t.Errorf("no layer is lean: %v", err)
	}
	for _, digest := range []v1.Hash{upstreams, own} {
		head, err := remote.Head(parsed.Context().Digest(digest.String()), remote.WithContext(t.Context()))
		if err != nil || head.Digest != digest {
			t.Errorf("%s: %+v, %v", digest, head, err)
		}
	}
	if _, err := remote.Head(parsed.Context().Digest("sha256:"+strings.Repeat("0", 64)), remote.WithContext(t.Context())); err == nil {
		t.Error("a digest that nothing has is found")
	}
	other := containerd.StartForTest(t)
	hosts := hostsFolder(t, address)
	out, err := exec.CommandContext(t.Context(), other.Ctr, "--address", other.Socket, "--namespace", "k8s.io", "images", "pull", "--hosts-dir", hosts, ref).CombinedOutput()
	if err != nil {
		t.Errorf("containerd: %v\n%s", err, out)
	}
}

// unpacksToDiffIDs compares what the layers of an image unpack to with its configuration. validate.Image knows gzip alone.
func unpacksToDiffIDs(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != len(config.RootFS.DiffIDs) {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	for n, layer := range layers {
		r, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := v1.SHA256(r)
		if err != nil || got != config.RootFS.DiffIDs[n] {
			t.Errorf("layer %d unpacks to %s, not %s: %v", n, got, config.RootFS.DiffIDs[n], err)
		}
	}
}

// leanBundle makes a bundle with lean layers of a package with one image.
func leanBundle(t *testing.T, ref string, image v1.Image) *bundle.Archive {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.tar.gz")
	imagepackage.WriteImage(t, file, ref, image)
	plain, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	companion, err := lean.NewSpool(t.TempDir()).Companion(t.Context(), plain)
	if err != nil || companion == nil {
		t.Fatalf("no companion: %v", err)
	}
	defer companion.Close()
	var out bytes.Buffer
	if _, err = bundle.WriteBundle(t.Context(), &out, bundle.Bundle{Packages: []*bundle.Archive{plain}, Lean: []*bundle.Archive{companion}}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serving serves the images of a containerd.
func serving(t *testing.T, c *containerd.Containerd) (r *runtime.Runtime, address string) {
	t.Helper()
	r, err := runtime.Connect(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	server := httptest.NewServer(mirror.Server{Content: r, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(server.Close)
	return r, strings.TrimPrefix(server.URL, "http://")
}

// load loads the images of the only package of an archive.
func load(t *testing.T, r *runtime.Runtime, a *bundle.Archive) *runtime.Layout {
	t.Helper()
	layout, err := runtime.OpenLayout(a, a.Index.Packages[0].Dir()+"/images")
	if err == nil {
		_, err = r.Load(t.Context(), layout, func(string) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

// hostsFolder has a server as the mirror of all registries.
func hostsFolder(t *testing.T, address string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "_default"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "_default", "hosts.toml"), []byte("[host.\"http://"+address+"\"]\n  capabilities = [\"pull\", \"resolve\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPullsConform runs the tests of the distribution protocol for registries that take no push.
func TestPullsConform(t *testing.T) {
	program, err := lab.Workshop(t).File(t.Context(), upstream.Program("oci-conformance"))
	if err != nil {
		t.Fatal(err)
	}
	_, address, want := loaded(t)
	ref, err := name.ParseReference(address + "/" + greeting + ":1")
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	blobs := []string{manifest.Config.Digest.String()}
	for _, layer := range manifest.Layers {
		blobs = append(blobs, layer.Digest.String())
	}
	results := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir = results
	cmd.Env = append(os.Environ(), "OCI_REGISTRY="+address, "OCI_TLS=disabled", "OCI_REPO1="+greeting, "OCI_RESULTS_DIR="+results, "OCI_VERSION=1.1",
		"OCI_API_PUSH=false", "OCI_API_BLOBS_DELETE=false", "OCI_API_MANIFESTS_DELETE=false", "OCI_API_TAGS_DELETE=false",
		"OCI_API_BLOBS_DIGEST_HEADER=true", // of manifests it reads no header where it pushes nothing: see TestHeaders
		"OCI_RO_DATA_TAGS=1", "OCI_RO_DATA_MANIFESTS="+want.Digest.String(), "OCI_RO_DATA_BLOBS="+strings.Join(blobs, " "), "OCI_RO_DATA_REFERRERS="+want.Digest.String())
	out, _ := cmd.CombinedOutput() // after its report, this version panics where it has pushed nothing
	if !strings.Contains(string(out), "OCI Conformance Result: Pass\n") {
		t.Errorf("it found faults:\n%s", out)
	}
	for _, test := range []string{"tag-list", "head/manifest-head-by-tag", "head/blob-head", "pull/manifest-by-digest", "pull/blob-get", "referrers"} {
		if !strings.Contains(string(out), "read-only/"+test+": Pass\n") {
			t.Errorf("%s did not run, or failed:\n%s", test, out)
		}
	}
}
