package image_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/faultyregistry"
)

// artifact is a signature or an SBOM with some content. It refers to its subject, if there is one.
func artifact(t *testing.T, content string, subject partial.Describable) v1.Image {
	t.Helper()
	made, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer([]byte(content), "text/spdx+json"))
	if err != nil {
		t.Fatal(err)
	}
	made = mutate.ConfigMediaType(made, "application/vnd.example.sbom+json")
	if subject == nil {
		return made
	}
	d, err := partial.Descriptor(subject)
	if err != nil {
		t.Fatal(err)
	}
	return mutate.Subject(made, v1.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}).(v1.Image)
}

// TestAttachmentsAreKept uses an image whose SBOM refers to it and is itself signed, and that cosign signed under a tag.
func TestAttachmentsAreKept(t *testing.T) {
	for name, api := range map[string]bool{"by the referrers API": true, "by tags alone": false} {
		t.Run(name, func(t *testing.T) {
			r := testRegistry{faultyregistry.New(t, registry.WithReferrersSupport(api))}
			amd, arm := newImage(t, "linux", "amd64", 1), newImage(t, "linux", "arm64", 1)
			root := r.pushIndex(t, "mirrored/app:1", newIndex(t, amd, arm))
			push := func(what v1.Image, tag string) string {
				if tag == "" {
					return r.pushImage(t, "mirrored/app@"+digestOf(t, what), what)
				}
				return r.pushImage(t, "mirrored/app:"+tag, what)
			}
			sbom := artifact(t, "sbom", amd)
			want := map[string]string{ // to their subjects
				push(sbom, ""): digestOf(t, amd), push(artifact(t, "of the sbom", sbom), ""): digestOf(t, sbom),
				push(artifact(t, "cosign", nil), strings.Replace(root, ":", "-", 1)+".sig"): root,
			}
			other := push(artifact(t, "of arm", arm), "")

			b := newBench(t, r)
			resolved, err := b.resolve(t, "app:1")
			if err == nil {
				err = b.Attach(t.Context(), &resolved)
			}
			if err == nil {
				err = b.fetchAll(t, resolved)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for _, a := range resolved.Attached {
				got[a.Digest] = a.Subject
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			checkReferrers(t, b.unpack(t, resolved), want)

			both, err := b.resolve(t, "app:1", "linux/amd64", "linux/arm64")
			if err == nil {
				err = b.Attach(t.Context(), &both)
			}
			if err != nil || !slices.ContainsFunc(both.Attached, func(a image.Attached) bool { return a.Digest == other }) || len(both.Attached) != 4 {
				t.Fatalf("attached to both platforms: %+v, %v", both.Attached, err)
			}
			r.SetFault(nil)
			pinned, err := newBench(t, r).resolve(t, "app:1")
			if err == nil {
				err = b.AttachPinned(t.Context(), &pinned, both.Attached)
			}
			if diff := cmp.Diff(resolved.Attached, pinned.Attached); diff != "" || err != nil || r.Count("", "/referrers/")+r.Count("", ".sig") > 0 {
				t.Errorf("by the lock: %v, %v\n%s", err, r.Requests(), diff)
			}
		})
	}
}

// checkReferrers checks the list in a layout, and that it has all blobs.
func checkReferrers(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	read := func(name string, to any) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(data, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var list ocispec.Index
	read(bundle.ReferrersName, &list)
	for _, d := range list.Manifests {
		digest := d.Digest.String()
		if name := d.Annotations[ocispec.AnnotationRefName]; d.Annotations[bundle.SubjectAnnotation] != want[digest] ||
			name != upstream+"/app@"+digest && name != upstream+"/app:"+strings.Replace(want[digest], ":", "-", 1)+".sig" {
			t.Errorf("%s is listed as %v", digest, d.Annotations)
		}
		var m ocispec.Manifest
		read("blobs/sha256/"+d.Digest.Encoded(), &m)
		for _, blob := range append(m.Layers, m.Config) {
			if !exists(dir, blob.Digest.String()) {
				t.Errorf("%s lacks %s", digest, blob.Digest)
			}
		}
	}
	if len(list.Manifests) != len(want) {
		t.Errorf("listed %+v", list.Manifests)
	}
}

func TestReferrersAreReadPageByPage(t *testing.T) {
	r := testRegistry{faultyregistry.New(t, registry.WithReferrersSupport(true))}
	app := newImage(t, "linux", "amd64", 1)
	r.pushImage(t, "mirrored/app:1", app)
	for _, content := range []string{"one", "two"} {
		one := artifact(t, content, app)
		r.pushImage(t, "mirrored/app@"+digestOf(t, one), one)
	}
	r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, "/referrers/"+digestOf(t, app)) {
			return false
		}
		var list ocispec.Index
		if err := json.Unmarshal(r.answer(req).Body.Bytes(), &list); err != nil || len(list.Manifests) != 2 {
			t.Error(list, err)
			return false
		}
		slices.SortFunc(list.Manifests, func(a, b ocispec.Descriptor) int { // this registry lists them in any order
			return strings.Compare(a.Digest.String(), b.Digest.String())
		})
		first := req.URL.Query().Get("n") == ""
		if first {
			w.Header().Set("Link", "<"+req.URL.Path+`?n=2>; rel="next"`)
			list.Manifests = list.Manifests[:1]
		} else {
			list.Manifests = list.Manifests[1:]
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
		return true
	})
	b := newBench(t, r)
	resolved, err := b.resolve(t, "app:1")
	if err == nil {
		err = b.Attach(t.Context(), &resolved)
	}
	if err != nil || len(resolved.Attached) != 2 {
		t.Errorf("got %+v, %v", resolved.Attached, err)
	}
}

// behind is a registry that answers as registry.k8s.io does: it redirects everything but blobs to another host, under another path.
func behind(t *testing.T, options ...registry.Option) (front, target testRegistry) {
	t.Helper()
	front, target = testRegistry{faultyregistry.New(t, options...)}, testRegistry{faultyregistry.New(t, options...)}
	front.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/blobs/") {
			req.URL.Path = strings.Replace(req.URL.Path, "/mirrored/", "/prod/", 1)
			target.Inner.ServeHTTP(w, req)
			return true
		}
		http.Redirect(w, req, "http://"+target.Host+strings.Replace(req.URL.RequestURI(), "/mirrored/", "/prod/", 1), http.StatusTemporaryRedirect)
		return true
	})
	return front, target
}

func TestRedirectsToTheRegistryBehindAreFollowed(t *testing.T) {
	for name, api := range map[string]bool{"with the referrers API": true, "by tags alone": false} {
		t.Run(name, func(t *testing.T) {
			front, target := behind(t, registry.WithReferrersSupport(api))
			plain, signed := newImage(t, "linux", "amd64", 1), newImage(t, "linux", "amd64", 1)
			target.pushImage(t, "prod/plain:1", plain)
			target.pushImage(t, "prod/signed:1", signed)
			one, two := artifact(t, "one", signed), artifact(t, "two", signed)
			for _, a := range []v1.Image{one, two} {
				target.pushImage(t, "prod/signed@"+digestOf(t, a), a)
			}
			target.SetFault(func(w http.ResponseWriter, req *http.Request) bool { // two pages: the address of the second is relative to here
				if !strings.HasSuffix(req.URL.Path, "/prod/signed/referrers/"+digestOf(t, signed)) || !api {
					return false
				}
				var list ocispec.Index
				if err := json.Unmarshal(target.answer(req).Body.Bytes(), &list); err != nil || len(list.Manifests) != 2 {
					t.Error(list, err)
				}
				content := []v1.Image{one, two}
				if req.URL.RawQuery == "" {
					w.Header().Set("Link", "<"+req.URL.Path+`?n=2>; rel="next"`)
					content = content[:1]
				} else {
					content = content[1:]
				}
				list.Manifests = slices.DeleteFunc(list.Manifests, func(d ocispec.Descriptor) bool { return d.Digest.String() != digestOf(t, content[0]) })
				w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
				if err := json.NewEncoder(w).Encode(list); err != nil {
					t.Error(err)
				}
				return true
			})
			for ref, attached := range map[string]int{"plain:1": 0, "signed:1": 2} {
				b := newBench(t, front)
				resolved, err := b.resolve(t, ref)
				if err == nil {
					err = b.Attach(t.Context(), &resolved)
				}
				if err == nil {
					err = b.fetchAll(t, resolved)
				}
				if err != nil || len(resolved.Attached) != attached {
					t.Errorf("%s: attached %+v, %v", ref, resolved.Attached, err)
				}
			}
		})
	}
}

// TestUnavailableReferrersAreAnError uses a registry that is overloaded for good: an image without its signatures must not look like one that
// has none.
func TestUnavailableReferrersAreAnError(t *testing.T) {
	r := newRegistry(t)
	r.pushImage(t, "mirrored/app:1", newImage(t, "linux", "amd64", 1))
	b := newBench(t, r)
	resolved, err := b.resolve(t, "app:1")
	if err != nil {
		t.Fatal(err)
	}
	for status, fails := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusTooManyRequests: true, http.StatusForbidden: false, http.StatusMethodNotAllowed: false, http.StatusTemporaryRedirect: false} {
		r.SetFault(func(w http.ResponseWriter, req *http.Request) bool {
			if strings.Contains(req.URL.Path, "/referrers/") {
				w.WriteHeader(status)
				return true
			}
			return false
		})
		err := b.Attach(context.WithoutCancel(t.Context()), &resolved)
		if fails != (err != nil) || err != nil && !strings.Contains(err.Error(), "what is attached to image "+upstream+"/app:1") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// TestAttestationsInIndexAreKept has an index as buildkit writes it, with an attestation for each platform.
func TestAttestationsInIndexAreKept(t *testing.T) {
	r := newRegistry(t)
	amd, arm := newImage(t, "linux", "amd64", 1), newImage(t, "linux", "arm64", 1)
	index := newIndex(t, amd, arm)
	attestations := map[v1.Image]v1.Image{amd: artifact(t, "of amd64", nil), arm: artifact(t, "of arm64", nil)}
	for _, subject := range []v1.Image{amd, arm} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: attestations[subject], Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
			Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": digestOf(t, subject)},
		}})
	}
	r.pushIndex(t, "mirrored/app:1", index)
	b := newBench(t, r)
	resolved, err := b.resolve(t, "app:1")
	if err == nil {
		err = b.AttachPinned(t.Context(), &resolved, nil) // the index is what a lock pins
	}
	if err == nil {
		err = b.fetchAll(t, resolved)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := b.unpack(t, resolved)
	for subject, attestation := range attestations {
		layers, err := attestation.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{digestOf(t, attestation), digestOf(t, layers[0])} {
			if exists(dir, d) != (subject == amd) {
				t.Errorf("the layout has the attestation of %s: %v", digestOf(t, subject), exists(dir, d))
			}
		}
	}
	if exists(dir, "../../"+bundle.ReferrersName) {
		t.Error("an attestation in the index is listed as a referrer")
	}
}
