package image_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/image"
)

func TestParseReference(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	tests := map[string]struct{ in, want, repository, tag, digest string }{
		"a full name stays":              {"registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10", "registry.k8s.io/pause", "3.10", ""},
		"a short name is Docker Hub's":   {"busybox:1.35.0", "docker.io/library/busybox:1.35.0", "docker.io/library/busybox", "1.35.0", ""},
		"an owner is Docker Hub's":       {"rook/ceph:v1.4.3", "docker.io/rook/ceph:v1.4.3", "docker.io/rook/ceph", "v1.4.3", ""},
		"no tag is latest":               {"epicsoft/bcrypt", "docker.io/epicsoft/bcrypt:latest", "docker.io/epicsoft/bcrypt", "latest", ""},
		"a port is not a tag":            {"localhost:5000/a:1", "localhost:5000/a:1", "localhost:5000/a", "1", ""},
		"a digest needs no tag":          {"quay.io/a@" + digest, "quay.io/a@" + digest, "quay.io/a", "", digest},
		"a digest beside a tag is both":  {"quay.io/a:1@" + digest, "quay.io/a:1@" + digest, "quay.io/a", "1", digest},
		"Docker Hub's other name is one": {"index.docker.io/library/a:1", "docker.io/library/a:1", "docker.io/library/a", "1", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := image.ParseReference(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if r.String() != test.want || r.Repository() != test.repository || r.Tag() != test.tag || r.Digest() != test.digest {
				t.Errorf("got %s: repository %s, tag %q, digest %q", r, r.Repository(), r.Tag(), r.Digest())
			}
		})
	}
	for _, bad := range []string{"", "a/B:1", "a:b:c", "a@sha256:12"} {
		if _, err := image.ParseReference(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestTaggedIndexIsKept(t *testing.T) {
	r := newRegistry(t)
	amd, arm := newImage(t, "linux", "amd64", 2), newImage(t, "linux", "arm64", 2)
	want := r.pushIndex(t, "mirrored/app:1", newIndex(t, amd, arm))
	b := newBench(t, r)
	resolved := b.pull(t, "app:1")
	if resolved.Root.Digest != want || resolved.Ref != upstream+"/app:1" {
		t.Errorf("resolved %s to %s, want %s", resolved.Ref, resolved.Root.Digest, want)
	}
	described := resolved.Describe()
	if described.Digest != want || len(described.Platforms) != 1 || described.Platforms["linux/amd64"] != digestOf(t, amd) {
		t.Errorf("described as %+v", described)
	}

	dir := b.unpack(t, resolved)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json lists %v, %v", top, err)
	}
	d := top.Manifests[0]
	for _, key := range []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"} {
		if d.Annotations[key] != upstream+"/app:1" {
			t.Errorf("annotation %s is %q", key, d.Annotations[key])
		}
	}
	kept, err := index.ImageIndex(d.Digest)
	if err != nil || d.Digest.String() != want {
		t.Fatalf("index.json leads to %s, %v; want %s", d.Digest, err, want)
	}
	hash, _ := amd.Digest()
	img, err := kept.Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Errorf("the image in the layout is not valid: %v", err)
	}
	_, other, _ := strings.Cut(digestOf(t, arm), ":")
	if _, err := os.Stat(filepath.Join(dir, "blobs/sha256", other)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the manifest of a platform that nobody asked for: %v, want that it is absent", err)
	}
}

func TestSkopeoReadsLayout(t *testing.T) {
	for _, mediaType := range []types.MediaType{types.OCIImageIndex, types.DockerManifestList} {
		t.Run(string(mediaType), func(t *testing.T) {
			r := newRegistry(t)
			index := mutate.IndexMediaType(newIndex(t, newImage(t, "linux", "amd64", 1), newImage(t, "linux", "arm64", 1)), mediaType)
			want := r.pushIndex(t, "mirrored/group/app:v1.2", index)
			b := newBench(t, r)
			dir := b.unpack(t, b.pull(t, "group/app:v1.2"))
			out, err := exec.CommandContext(t.Context(), "skopeo", "inspect", "--override-os=linux", "--override-arch=amd64",
				"--format={{.Digest}}", "oci:"+dir+":"+upstream+"/group/app:v1.2").CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != want {
				t.Errorf("skopeo inspect: %s, %v; want %s", out, err, want)
			}
		})
	}
}

func TestSeveralPlatformsArePulled(t *testing.T) {
	r := newRegistry(t)
	amd, arm := newImage(t, "linux", "amd64", 1), newImage(t, "linux", "arm64", 1)
	r.pushIndex(t, "mirrored/app:1", newIndex(t, arm, amd))
	b := newBench(t, r)
	resolved := b.pull(t, "app:1", "linux/amd64", "linux/arm64")
	got := resolved.Describe().Platforms
	if got["linux/amd64"] != digestOf(t, amd) || got["linux/arm64"] != digestOf(t, arm) {
		t.Errorf("platforms are %v", got)
	}
	b.unpack(t, resolved)
}

func TestSharedLayersAreStoredOnce(t *testing.T) {
	r := newRegistry(t)
	base := newImage(t, "linux", "amd64", 3)
	layer, err := random.Layer(100, types.DockerLayer)
	if err != nil {
		t.Fatal(err)
	}
	derived, err := mutate.AppendLayers(base, layer)
	if err != nil {
		t.Fatal(err)
	}
	r.pushImage(t, "mirrored/base:1", base)
	r.pushImage(t, "mirrored/derived:1", derived)
	b := newBench(t, r)
	r.SetFault(nil)
	dir := b.unpack(t, b.pull(t, "base:1"), b.pull(t, "derived:1")) // unpack fails on duplicate files
	layers, err := base.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		digest := digestOf(t, l)
		if n := r.Count("GET", digest); n != 1 {
			t.Errorf("layer %s was transferred %d times", digest, n)
		}
	}
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs/sha256"))
	if want := 2 + 2 + 4; err != nil || len(blobs) != want { // manifests, configurations, layers
		t.Errorf("%d blobs, %v; want %d", len(blobs), err, want)
	}
}

func TestMediaTypesMatchRegistry(t *testing.T) {
	for _, mediaType := range []types.MediaType{types.DockerManifestSchema2, types.OCIManifestSchema1} {
		t.Run(string(mediaType), func(t *testing.T) {
			r := newRegistry(t)
			want := r.pushImage(t, "mirrored/app:1", mutate.MediaType(newImage(t, "linux", "amd64", 1), mediaType))
			resolved := newBench(t, r).pull(t, "app:1")
			if resolved.Root.Digest != want || resolved.Root.MediaType != string(mediaType) {
				t.Errorf("got %s of type %s", resolved.Root.Digest, resolved.Root.MediaType)
			}
		})
	}
}

func TestUnresolvableImagesAreRefused(t *testing.T) {
	r := newRegistry(t)
	r.pushIndex(t, "mirrored/multi:1", newIndex(t, newImage(t, "linux", "arm64", 1), newImage(t, "linux", "s390x", 1), newImage(t, "unknown", "unknown", 1)))
	r.pushImage(t, "mirrored/arm:1", newImage(t, "linux", "arm64", 1))
	tests := map[string]struct {
		ref       string
		platforms []string
		want      []string
		hint      string
	}{
		"an image that does not exist": {"none:1", nil,
			[]string{"image registry.example.io/none:1 does not exist", "(mirror " + r.Host + "/mirrored/none:1)"}, "check the spelling"},
		"a tag that does not exist": {"multi:2", nil, []string{"multi:2 does not exist"}, "check the spelling"},
		"an index without the platform names those it has": {"multi:1", nil,
			[]string{"no image for linux/amd64, only for linux/arm64, linux/s390x"}, ""},
		"an image for another platform": {"arm:1", nil, []string{"the image is for linux/arm64, not for linux/amd64"}, ""},
		"an image without index for two platforms": {"arm:1", []string{"linux/amd64", "linux/arm64"},
			[]string{"for linux/arm64 only"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newBench(t, r).resolve(t, test.ref, test.platforms...)
			var typed *image.Error
			if !errors.As(err, &typed) {
				t.Fatalf("got %v, want an *image.Error", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if !strings.Contains(typed.Hint(), test.hint) {
				t.Errorf("hint is %q, want %q in it", typed.Hint(), test.hint)
			}
		})
	}
}

func TestDockerHubUsesItsMirror(t *testing.T) {
	r := newRegistry(t)
	want := r.pushImage(t, "hub/library/busybox:1.35.0", newImage(t, "linux", "amd64", 1))
	resolved, err := newBench(t, r).resolveExactly(t, "busybox:1.35.0")
	if err != nil || resolved.Root.Digest != want || resolved.Ref != "docker.io/library/busybox:1.35.0" {
		t.Errorf("got %+v, %v", resolved, err)
	}
}

func TestCachedPinnedImageNeedsNoRegistry(t *testing.T) {
	r := newRegistry(t)
	digest := r.pushImage(t, "mirrored/app:1", newImage(t, "linux", "amd64", 1))
	b := newBench(t, r)
	b.pull(t, "app@"+digest)
	r.SetFault(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true })
	b.pull(t, "app@"+digest)
}

func TestUnmovedTagTransfersNoBody(t *testing.T) {
	r := newRegistry(t)
	r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 2)))
	b := newBench(t, r)
	b.pull(t, "app:1")
	r.SetFault(nil)
	sourceOn(t, r, b.cache, nil).pull(t, "app:1")
	if n := r.Count("GET", "/manifests/") + r.Count("GET", "/blobs/"); n != 0 {
		t.Errorf("%d bodies were transferred again", n)
	}
	want := r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 2)))
	if got := sourceOn(t, r, b.cache, nil).pull(t, "app:1").Root.Digest; got != want {
		t.Errorf("the tag moved to %s, resolved is %s", want, got)
	}
}

func TestDamagedCachedManifestIsRefetched(t *testing.T) {
	r := newRegistry(t)
	img := newImage(t, "linux", "amd64", 1)
	index := newIndex(t, img)
	r.pushIndex(t, "mirrored/app:1", index)
	b := newBench(t, r)
	b.pull(t, "app:1")
	for _, thing := range []interface{ Digest() (v1.Hash, error) }{index, img} {
		_, hex, _ := strings.Cut(digestOf(t, thing), ":")
		if err := os.WriteFile(b.cache.Path(hex), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.unpack(t, sourceOn(t, r, b.cache, nil).pull(t, "app:1"))
}

func TestDamagedContentIsRefused(t *testing.T) {
	tests := map[string]struct {
		part string // of the path that is damaged
		want error
	}{
		"a manifest that is not what the index promised": {"/manifests/sha256:", nil},
		"a blob with a flipped byte":                     {"/blobs/sha256:", cache.ErrMismatch},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 1)))
			r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != http.MethodGet || !strings.Contains(req.URL.Path, test.part) {
					return false
				}
				good := r.answer(req)
				body := slices.Clone(good.Body.Bytes())
				body[len(body)/2] ^= 1
				maps.Copy(w.Header(), good.Header())
				_, _ = w.Write(body)
				return true
			})
			b := newBench(t, r)
			resolved, err := b.resolve(t, "app:1")
			if err == nil {
				err = b.fetchAll(t, resolved)
			}
			var typed *image.Error
			if !errors.As(err, &typed) || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBuildWaitsForRecoveringRegistry(t *testing.T) {
	faults := map[string]func(w http.ResponseWriter, good []byte){
		"500": func(w http.ResponseWriter, _ []byte) { w.WriteHeader(500) },
		"a truncated body": func(w http.ResponseWriter, good []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(good)))
			_, _ = w.Write(good[:len(good)/2])
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 2)))
			var mu sync.Mutex
			failed := make(map[string]bool) // every path fails once
			r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
				mu.Lock()
				first := req.Method == http.MethodGet && !failed[req.URL.Path]
				failed[req.URL.Path] = true
				mu.Unlock()
				if first {
					good := r.answer(req)
					maps.Copy(w.Header(), good.Header())
					fault(w, good.Body.Bytes())
				}
				return first
			})
			b := newBench(t, r)
			b.unpack(t, b.pull(t, "app:1"))
		})
	}
}

func TestCredentialsAreUsed(t *testing.T) {
	r := newRegistry(t)
	r.pushImage(t, "mirrored/app:1", newImage(t, "linux", "amd64", 1))
	r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
		user, password, _ := req.BasicAuth()
		if user == "me" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`)
		return true
	})
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sourceOn(t, r, c, authn.NewKeychainFromHelper(helper{})).pull(t, "app:1")

	_, err = newBench(t, r).resolve(t, "app:1")
	var typed *image.Error
	if !errors.As(err, &typed) || !strings.Contains(typed.Hint(), "docker login") {
		t.Errorf("without credentials: %v", err)
	}
}

// helper is a credential helper that knows one account.
type helper struct{}

func (helper) Get(string) (user, password string, err error) { return "me", "secret", nil }

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"busybox", "registry.k8s.io/pause:3.10", "a.b:1/c@sha256:" + strings.Repeat("0", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := image.ParseReference(s)
		if err != nil {
			return
		}
		again, err := image.ParseReference(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q gives %s, and that gives %s, %v", s, r, again, err)
		}
		if r.Tag() == "" && r.Digest() == "" {
			t.Errorf("%q gives %s without tag or digest", s, r)
		}
	})
}

func TestIndexMayNotClaimAnotherPlatform(t *testing.T) {
	r := newRegistry(t)
	honest := newIndex(t, newImage(t, "linux", "amd64", 1), newImage(t, "linux", "arm64", 1))
	forged := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: newImage(t, "linux", "arm64", 1), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	})
	r.pushIndex(t, "mirrored/honest:1", honest)
	r.pushIndex(t, "mirrored/forged:1", forged)
	for ref, want := range map[string]string{"honest:1": "", "forged:1": "the image is for linux/arm64, not for linux/amd64"} {
		b := newBench(t, r)
		resolved, err := b.resolve(t, ref)
		if err == nil {
			err = b.fetchAll(t, resolved)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.CheckPlatforms(t.Context(), resolved); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
}
