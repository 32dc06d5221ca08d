package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/faultyregistry"
	"github.com/sealift/sealift/registry"
)

// layer is the same for the same seed.
func layer(t *testing.T, seed int64) v1.Layer {
	t.Helper()
	l, err := random.Layer(20_000, types.OCILayer, random.WithSource(newSource(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func platformImage(t *testing.T, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layers...)
	if err != nil {
		t.Fatal(err)
	}
	return withPlatform(t, img, arch)
}

func withPlatform(t *testing.T, img v1.Image, arch string) v1.Image {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

func index(images ...v1.Image) v1.ImageIndex {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for n, img := range images {
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: []string{"amd64", "arm64", "s390x"}[n]}}})
	}
	return all
}

// content is a package with images, by their references. Blobs whose digests are in without are left out.
func content(t *testing.T, images map[string]v1.ImageIndex, without ...string) *bundle.Archive {
	t.Helper()
	return packageOf(t, "app", images, without...)
}

func packageOf(t *testing.T, name string, images map[string]v1.ImageIndex, without ...string) *bundle.Archive {
	t.Helper()
	dir := t.TempDir()
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	p := bundle.Package{Name: name, Version: "1.0", Platforms: []string{"linux/amd64"}}
	for ref, image := range images {
		if err := written.AppendIndex(image, layout.WithAnnotations(map[string]string{"io.containerd.image.name": ref})); err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		p.Contents.Images = append(p.Contents.Images, bundle.Image{ID: digest.Hex[:12], Ref: ref, Digest: digest.String(), Platforms: map[string]string{"linux/amd64": digest.String()}})
	}
	root := bundle.AddOnDir(name, "1.0") + "/"
	p.Files = append(p.Files, bundle.BytesFile(root+"Manifest", 0o644, nil))
	if err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.Contains(without, entry.Name()) {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if entry.Name() == "index.json" { // the builder's layouts say so, for skopeo
			data = bytes.ReplaceAll(data, []byte(types.DockerManifestList), []byte(types.OCIImageIndex))
		}
		below, err := filepath.Rel(dir, name)
		p.Files = append(p.Files, bundle.BytesFile(root+"images/"+filepath.ToSlash(below), 0o644, data))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type v1Index = v1.ImageIndex

// site is a registry to which tests push.
type site struct{ *faultyregistry.Registry }

func newSite(t *testing.T) site {
	t.Helper()
	return site{faultyregistry.New(t)}
}

func options(t *testing.T, host string) registry.Options {
	t.Helper()
	target, err := registry.ParseTarget("oci://"+host+"/mirror", false)
	if err != nil {
		t.Fatal(err)
	}
	return registry.Options{Target: target, Pause: time.Millisecond, Patience: time.Minute}
}

func push(ctx context.Context, a *bundle.Archive, o registry.Options) (registry.Summary, error) {
	p, err := registry.Prepare(ctx, a, o)
	if err != nil {
		return registry.Summary{}, err
	}
	return p.Run(ctx)
}

// check compares what a registry has with an image, byte for byte.
func check(t *testing.T, place string, want interface{ Digest() (v1.Hash, error) }) {
	t.Helper()
	ref, err := name.ParseReference(place)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := want.Digest()
	if err != nil || got.Digest != digest {
		t.Errorf("%s is %s, not %s", place, got.Digest, digest)
	}
	if got.MediaType.IsIndex() {
		index, indexErr := got.ImageIndex()
		if err = indexErr; err == nil {
			err = validate.Index(index)
		}
	} else {
		image, imageErr := got.Image()
		if err = imageErr; err == nil {
			err = validate.Image(image)
		}
	}
	if err != nil {
		t.Errorf("%s: %v", place, err)
	}
}

// dockerImage is an image with Docker's media types.
func dockerImage(t *testing.T) v1.Image {
	t.Helper()
	l, err := random.Layer(1000, types.DockerLayer, random.WithSource(newSource(6)))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	return withPlatform(t, img, "amd64")
}

// several are two images with a common layer, one with Docker's media types, and another one.
func several(t *testing.T) map[string]v1.ImageIndex {
	t.Helper()
	common := layer(t, 1)
	return map[string]v1.ImageIndex{
		"registry.k8s.io/group/app:v1":   index(platformImage(t, "amd64", common, layer(t, 2)), platformImage(t, "arm64", common, layer(t, 3))),
		"registry.k8s.io/other:v2":       index(platformImage(t, "amd64", common, layer(t, 4))),
		"registry.k8s.io/docker:v3":      mutate.IndexMediaType(index(dockerImage(t)), types.DockerManifestList),
		"docker.io/library/busybox:1.35": index(platformImage(t, "amd64", layer(t, 5))),
	}
}

func (s site) checkAll(t *testing.T, images map[string]v1.ImageIndex) {
	t.Helper()
	for ref, image := range images {
		check(t, s.Host+"/mirror/"+ref, image)
	}
}

func TestSecondPushSendsNothing(t *testing.T) {
	s, images := newSite(t), several(t)
	a := content(t, images)
	planned, err := registry.Prepare(t.Context(), a, options(t, s.Host))
	if err != nil {
		t.Fatal(err)
	}
	if s.Count("POST", "")+s.Count("PUT", "") > 0 || planned.Send == 0 || planned.Mounted == 0 || planned.Send != planned.Total {
		t.Errorf("the plan is %+v, and the registry got %v", planned.Summary, s.Requests())
	}
	first, err := push(t.Context(), a, options(t, s.Host))
	if err != nil {
		t.Fatal(err)
	}
	s.checkAll(t, images)
	if first.Send != planned.Send+planned.Mounted || first.Mounted != 0 { // this registry copies nothing
		t.Errorf("sent %d of %d, copied %d", first.Send, first.Total, first.Mounted)
	}
	s.SetFault(nil)
	second, err := push(t.Context(), a, options(t, s.Host))
	// one request for each index, and one for each of their five manifests
	if err != nil || second.Send != 0 || len(s.Requests()) != len(images)+5 || second.Images[0].State != registry.Present {
		t.Errorf("the second push sent %d bytes with %v, %v", second.Send, s.Requests(), err)
	}
}

// TestInterruptedPushIsContinued uses a registry that dies half-way.
func TestInterruptedPushIsContinued(t *testing.T) {
	s, images := newSite(t), several(t)
	a := content(t, images)
	var arrived int
	var mu sync.Mutex
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut {
			arrived++
		}
		if arrived <= 3 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	o := options(t, s.Host)
	o.Patience, o.Parallel = 20*time.Millisecond, 1
	partly, err := push(t.Context(), a, o)
	if err == nil || !strings.Contains(err.Error(), "tried ") || partly.Send == 0 || partly.Send >= partly.Total {
		t.Fatalf("sent %d of %d, %v", partly.Send, partly.Total, err)
	}
	s.SetFault(nil)
	rest, err := push(t.Context(), a, options(t, s.Host))
	if err != nil || rest.Send == 0 || rest.Send > rest.Total-partly.Send+30_000 { // a layer that is in another repository
		t.Errorf("sent %d of %d after %d, %v", rest.Send, rest.Total, partly.Send, err)
	}
	s.checkAll(t, images)
}

func TestOverloadedRegistryIsRetried(t *testing.T) {
	s, images := newSite(t), several(t)
	refused := make(map[string]bool)
	var mu sync.Mutex
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		kind := r.Method + path.Base(path.Dir(r.URL.Path)) // blobs, manifests, uploads
		if refused[kind] {
			return false
		}
		refused[kind] = true
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	begin := time.Now()
	o := options(t, s.Host)
	var said atomic.Int64
	o.Say = func(line string) {
		if strings.HasPrefix(line, "retrying for up to ") && strings.Contains(line, "429") {
			said.Add(1)
		}
	}
	if _, err := push(t.Context(), content(t, images), o); err != nil {
		t.Fatal(err)
	}
	s.SetFault(nil)
	if len(refused) < 4 || time.Since(begin) < time.Second || said.Load() != 1 {
		t.Errorf("refused %v, said so %d times, and the push took %s", refused, said.Load(), time.Since(begin))
	}
	s.checkAll(t, images)
}

// TestIndexWithAbsentPlatformsIsReduced uses a registry that takes an index only with all of its manifests, as distribution does.
func TestIndexWithAbsentPlatformsIsReduced(t *testing.T) {
	amd, arm, other := platformImage(t, "amd64", layer(t, 1)), platformImage(t, "arm64", layer(t, 2)), platformImage(t, "s390x", layer(t, 3))
	full, err := other.Digest()
	if err != nil {
		t.Fatal(err)
	}
	hidden := []string{full.Hex}
	for _, part := range []func() (v1.Hash, error){other.ConfigName} {
		digest, err := part()
		if err != nil {
			t.Fatal(err)
		}
		hidden = append(hidden, digest.Hex)
	}
	for what, row := range map[string]struct {
		index v1.ImageIndex
		want  []v1.Image
	}{"one platform": {index(amd, other), []v1.Image{amd}}, "two platforms": {index(amd, arm, other), []v1.Image{amd, arm}}} {
		t.Run(what, func(t *testing.T) {
			s := newSite(t)
			whole, err := row.index.Digest()
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") || !strings.Contains(r.Header.Get("Content-Type"), "index") {
					return false
				}
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if !bytes.Contains(body, []byte(full.Hex)) {
					return false
				}
				refused++
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN","message":"blob unknown to registry"}]}`)
				return true
			})
			a := content(t, map[string]v1.ImageIndex{"registry.k8s.io/app:v1": row.index}, hidden...)
			got, err := push(t.Context(), a, options(t, s.Host))
			if err != nil || refused != 1 || got.Images[0].Digest == whole.String() || !strings.Contains(got.Images[0].Note, "lacks some of its platforms") {
				t.Fatalf("%+v, %v", got, err)
			}
			checkPlatforms(t, s.Host+"/mirror/registry.k8s.io/app", got.Images[0].Digest, row.want)
			again, err := push(t.Context(), a, options(t, s.Host))
			if err != nil || again.Send != 0 || again.Images[0].State != registry.Present || again.Images[0].Note == "" {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// checkPlatforms checks that the tag v1 of a repository leads to the manifests of these images, and to nothing else.
func checkPlatforms(t *testing.T, repository, digest string, want []v1.Image) {
	t.Helper()
	ref, err := name.ParseReference(repository + ":v1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Get(ref)
	if err != nil || got.Digest.String() != digest {
		t.Fatal(got, err)
	}
	if !got.MediaType.IsIndex() {
		check(t, repository+":v1", want[0])
		return
	}
	index, err := got.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	listed, err := index.IndexManifest()
	if err != nil || len(listed.Manifests) != len(want) {
		t.Fatal(listed, err)
	}
	for n, image := range want {
		check(t, repository+"@"+listed.Manifests[n].Digest.String(), image)
	}
}

func TestStalledUploadEnds(t *testing.T) {
	s, over := newSite(t), make(chan struct{})
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		<-over // takes no byte
		return true
	})
	t.Cleanup(func() { close(over) })
	big, err := random.Layer(32<<20, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, s.Host)
	o.Stall, o.Patience = 50*time.Millisecond, time.Millisecond
	_, err = push(t.Context(), content(t, map[string]v1.ImageIndex{"a.example/b:1": index(platformImage(t, "amd64", big))}), o)
	if err == nil || !strings.Contains(err.Error(), "takes no more bytes") {
		t.Error(err)
	}
}
