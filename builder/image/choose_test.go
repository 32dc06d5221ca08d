package image_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder/image"
)

// entry is an image and the platform under which an index lists it, "" for none.
type entry struct {
	image    v1.Image
	platform string
}

func indexOf(entries ...entry) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, e := range entries {
		var d v1.Descriptor
		if e.platform != "" {
			parts := append(strings.Split(e.platform, "/"), "")
			d.Platform = &v1.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: e.image, Descriptor: d})
	}
	return index
}

// TestNodesImageIsBuilt takes AlmaLinux 10's order (AlmaLinux/container-images#71) and its siblings. internal/platform makes
// the choice.
func TestNodesImageIsBuilt(t *testing.T) {
	r := newRegistry(t)
	amd, v2, v3 := newImage(t, "linux", "amd64", 1), newImage(t, "linux", "amd64", 1), newImage(t, "linux", "amd64", 1)
	arm := newImage(t, "linux", "arm64", 1)
	for name, row := range map[string]struct {
		index v1.ImageIndex
		want  v1.Image
	}{
		"v2-first":         {indexOf(entry{v2, "linux/amd64/v2"}, entry{amd, "linux/amd64"}), amd},
		"v3-first":         {indexOf(entry{v3, "linux/amd64/v3"}, entry{v2, "linux/amd64/v2"}, entry{amd, "linux/amd64/v1"}), amd},
		"without-platform": {indexOf(entry{amd, ""}), amd},
		"attested":         {indexOf(entry{newImage(t, "unknown", "unknown", 1), "unknown/unknown"}, entry{arm, "linux/arm64"}, entry{amd, "linux/amd64"}), amd},
	} {
		t.Run(name, func(t *testing.T) {
			r.pushIndex(t, "mirrored/"+name+":1", row.index)
			b := newBench(t, r)
			resolved := b.pull(t, name+":1")
			if got := resolved.Manifests[0].Digest; got != digestOf(t, row.want) {
				t.Errorf("got %s, want %s", got, digestOf(t, row.want))
			}
			if err := b.CheckPlatforms(t.Context(), resolved); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnloadableVariantIsRefused(t *testing.T) {
	r := newRegistry(t)
	v2 := newImage(t, "linux", "amd64", 1)
	r.pushIndex(t, "mirrored/app:1", indexOf(entry{v2, "linux/amd64/v2"}))
	b := newBench(t, r)
	_, err := b.resolve(t, "app:1")
	var typed *image.Error
	if !errors.As(err, &typed) || !strings.Contains(err.Error(), "there is no image for linux/amd64, only for linux/amd64/v2") {
		t.Fatalf("got %v", err)
	}
	byDigest := upstream + "/app@" + digestOf(t, v2)
	if !strings.Contains(typed.Hint(), byDigest) {
		t.Errorf("hint is %q, want %s in it", typed.Hint(), byDigest)
	}
	if resolved, err := b.resolveExactly(t, byDigest); err != nil || resolved.Root.Digest != digestOf(t, v2) {
		t.Errorf("what the hint says: %v", err)
	}
}

func TestIndexInIndexIsCarried(t *testing.T) {
	r := newRegistry(t)
	amd := newImage(t, "linux", "amd64", 1)
	inner := indexOf(entry{newImage(t, "linux", "arm64", 1), "linux/arm64"}, entry{amd, "linux/amd64"})
	outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: inner})
	r.pushIndex(t, "mirrored/app:1", outer)
	b := newBench(t, r)
	resolved := b.pull(t, "app:1")
	if len(resolved.Indexes) != 1 || resolved.Indexes[0].Digest != digestOf(t, inner) || resolved.Manifests[0].Digest != digestOf(t, amd) {
		t.Errorf("resolved %+v", resolved)
	}
	dir := b.unpack(t, resolved)
	for _, part := range []interface{ Digest() (v1.Hash, error) }{outer, inner, amd} {
		if !exists(dir, digestOf(t, part)) {
			t.Errorf("the layout lacks %s", digestOf(t, part))
		}
	}
	ref, err := image.ParseReference(upstream + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := b.ResolvePinned(t.Context(), ref, resolved.Root, []string{"linux/amd64"})
	if err != nil || len(pinned.Indexes) != 1 {
		t.Errorf("pinned: %+v, %v", pinned, err)
	}
}

// TestBodyDeterminesItsMediaType covers registries whose Content-Type has parameters, is another one, or is missing (moby/moby#18226).
func TestBodyDeterminesItsMediaType(t *testing.T) {
	amd := newImage(t, "linux", "amd64", 1)
	docker := mutate.ConfigMediaType(mutate.MediaType(amd, types.DockerManifestSchema2), types.DockerConfigJSON)
	oci := mutate.ConfigMediaType(mutate.MediaType(amd, types.OCIManifestSchema1), types.OCIConfigJSON)
	index := indexOf(entry{amd, "linux/amd64"})
	for kind, row := range map[string]struct {
		push func(r testRegistry)
		want types.MediaType
	}{
		"index":  {func(r testRegistry) { r.pushIndex(t, "mirrored/app:1", index) }, types.OCIImageIndex},
		"docker": {func(r testRegistry) { r.pushImage(t, "mirrored/app:1", docker) }, types.DockerManifestSchema2},
		"oci":    {func(r testRegistry) { r.pushImage(t, "mirrored/app:1", oci) }, types.OCIManifestSchema1},
		"untyped index": {func(r testRegistry) {
			r.pushIndex(t, "mirrored/app:1", index)
			r.SetFault(r.without(`"mediaType":"application/vnd.oci.image.index.v1+json",`, ""))
		}, types.OCIImageIndex},
	} {
		for _, header := range []string{"", "text/plain", "application/json; charset=utf-8", string(row.want) + "; charset=utf-8", "application/vnd.docker.distribution.manifest.v1+prettyjws"} {
			t.Run(kind+" as "+header, func(t *testing.T) {
				r := newRegistry(t)
				row.push(r)
				inner := r.Fault()
				r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
					if !strings.HasSuffix(req.URL.Path, "/manifests/1") {
						return false
					}
					typed := &retyped{ResponseWriter: w, header: header}
					if inner == nil || !inner(typed, req) {
						r.Inner.ServeHTTP(typed, req)
					}
					return true
				})
				b := newBench(t, r)
				resolved := b.pull(t, "app:1")
				if resolved.Root.MediaType != string(row.want) || len(resolved.Manifests) != 1 {
					t.Errorf("got %+v", resolved.Root)
				}
				b.unpack(t, resolved)
			})
		}
	}
}

// retyped answers with another Content-Type; "" is none.
type retyped struct {
	http.ResponseWriter
	header string
}

func (r *retyped) WriteHeader(status int) {
	r.Header()["Content-Type"] = nil
	if r.header != "" {
		r.Header().Set("Content-Type", r.header)
	}
	r.ResponseWriter.WriteHeader(status)
}

// without answers with a body in which a text is replaced.
func (r testRegistry) without(text, by string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodGet {
			return false
		}
		body := bytes.Replace(r.answer(req).Body.Bytes(), []byte(text), []byte(by), 1)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body)
		return true
	}
}

func TestLyingIndexEntryIsRefused(t *testing.T) {
	r := newRegistry(t)
	amd := newImage(t, "linux", "amd64", 1)
	r.pushIndex(t, "mirrored/app:1", indexOf(entry{amd, "linux/amd64"}))
	size, err := amd.Size()
	if err != nil {
		t.Fatal(err)
	}
	lie := r.without(fmt.Sprintf(`"size":%d`, size), `"size":7`)
	r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
		return strings.HasSuffix(req.URL.Path, "/manifests/1") && lie(w, req)
	})
	if _, err := newBench(t, r).resolve(t, "app:1"); err == nil || !strings.Contains(err.Error(), "and the index says 7") {
		t.Errorf("got %v", err)
	}
}

func TestTinyBlobsAreCarried(t *testing.T) {
	r := newRegistry(t)
	img := newImage(t, "linux", "amd64", 1)
	for _, text := range []string{"", "x"} {
		var err error
		if img, err = mutate.AppendLayers(img, static.NewLayer([]byte(text), types.OCILayer)); err != nil {
			t.Fatal(err)
		}
	}
	r.pushImage(t, "mirrored/app:1", img)
	b := newBench(t, r)
	b.unpack(t, b.pull(t, "app:1"))
}

func TestMisbehavingRegistryIsAbandoned(t *testing.T) {
	for name, row := range map[string]struct {
		answer func(w http.ResponseWriter, req *http.Request)
		want   string
	}{
		"a manifest that redirects to itself": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, req.URL.Path, http.StatusTemporaryRedirect)
		}, "stopped after 10 redirects"},
		"a manifest without an end": {func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", string(types.OCIImageIndex))
			for req.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, "at most 4194304 are supported"},
	} {
		for _, path := range []string{"/manifests/1", "/v2/"} { // the latter is asked first, for credentials
			t.Run(name+" at "+path, func(t *testing.T) {
				r := newRegistry(t)
				r.pushImage(t, "mirrored/app:1", newImage(t, "linux", "amd64", 1))
				r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
					if !strings.HasSuffix(req.URL.Path, path) {
						return false
					}
					row.answer(w, req)
					return true
				})
				_, err := newBench(t, r).resolve(t, "app:1")
				if path == "/manifests/1" && (err == nil || !strings.Contains(err.Error(), row.want)) {
					t.Errorf("got %v", err)
				}
				if n := r.Count("", path); n > 2*11 { // HEAD or GET, each once
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

func TestRegistryRetryAfterIsHonored(t *testing.T) {
	r := newRegistry(t)
	r.pushImage(t, "mirrored/app:1", newImage(t, "linux", "amd64", 1))
	var once atomic.Bool
	var refused time.Time
	r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, "/manifests/1") || req.Method != http.MethodGet {
			return false
		}
		if once.CompareAndSwap(false, true) {
			refused = time.Now()
		}
		if time.Since(refused) > 900*time.Millisecond {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	newBench(t, r).pull(t, "app:1")
	if n := r.Count("GET", "/manifests/1"); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}
