package registry_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/faultyregistry"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/registry"
)

// attachment is a signature or an SBOM of an image of the repository registry.k8s.io/other.
type attachment struct {
	v1.Image
	tag     string
	subject v1.Hash
}

// attachments are an SBOM that refers to an image, a signature that refers to the same one, and a signature under cosign's tag.
func attachments(t *testing.T, image v1.ImageIndex) []attachment {
	t.Helper()
	d, err := partial.Descriptor(image)
	if err != nil {
		t.Fatal(err)
	}
	var all []attachment
	for n, content := range []string{"sbom", "signature", "cosign"} {
		made, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer([]byte(content), "text/spdx+json"))
		if err != nil {
			t.Fatal(err)
		}
		one := attachment{mutate.ConfigMediaType(made, "application/vnd.example.sbom+json"), "", d.Digest}
		if n == 2 {
			one.tag = strings.Replace(d.Digest.String(), ":", "-", 1) + ".sig"
		} else {
			one.Image = mutate.Subject(one.Image, v1.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}).(v1.Image)
		}
		all = append(all, one)
	}
	return all
}

// attach adds attachments to a package.
func attach(t *testing.T, a *bundle.Archive, all []attachment) *bundle.Archive {
	t.Helper()
	p := bundle.Package{Name: "app", Version: "1.0", Platforms: a.Index.Platforms, Contents: bundle.Contents{Images: a.Index.Packages[0].Images}}
	for _, e := range a.Index.Entries {
		data, err := a.ReadFile(e.Path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		p.Files = append(p.Files, bundle.BytesFile(e.Path, 0o644, data))
	}
	dir := bundle.AddOnDir("app", "1.0") + "/images/"
	added := make(map[digest.Digest]bool)
	add := func(data []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if d := digest.FromBytes(data); !added[d] {
			added[d] = true
			p.Files = append(p.Files, bundle.BytesFile(dir+"blobs/sha256/"+d.Encoded(), 0o644, data))
		}
	}
	list := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	for n, one := range all {
		manifest, err := one.RawManifest()
		add(manifest, err)
		add(one.RawConfigFile())
		add([]byte([]string{"sbom", "signature", "cosign"}[n]), nil)
		ref := "@" + digest.FromBytes(manifest).String()
		if one.tag != "" {
			ref = ":" + one.tag
		}
		list.Manifests = append(list.Manifests, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(manifest), Size: int64(len(manifest)),
			Annotations: map[string]string{ocispec.AnnotationRefName: "registry.k8s.io/other" + ref, bundle.SubjectAnnotation: one.subject.String()},
		})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	p.Files = append(p.Files, bundle.BytesFile(dir+bundle.ReferrersName, 0o644, text))
	var out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// checkAttached looks for attachments as their users do: by the referrers of the image, whichever way the registry has, and by tag.
func checkAttached(t *testing.T, host string, all []attachment) {
	t.Helper()
	repository := host + "/mirror/registry.k8s.io/other"
	subject, err := name.NewDigest(repository + "@" + all[0].subject.String())
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(subject)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := referrers.IndexManifest()
	if err != nil || len(listed.Manifests) != 2 {
		t.Fatalf("%+v, %v", listed, err)
	}
	for _, d := range listed.Manifests {
		if first, second := digestOf(t, all[0]), digestOf(t, all[1]); d.Digest.String() != first && d.Digest.String() != second || d.ArtifactType != "application/vnd.example.sbom+json" {
			t.Errorf("listed %+v", d)
		}
	}
	for _, one := range all {
		place := repository + "@" + digestOf(t, one)
		if one.tag != "" {
			place = repository + ":" + one.tag
		}
		ref, err := name.ParseReference(place)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Get(ref)
		if err != nil || got.Digest.String() != digestOf(t, one) {
			t.Errorf("%s is %v, %v", place, got, err)
		}
	}
}

func digestOf(t *testing.T, what interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	d, err := what.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func TestAttachmentsAreListedByEveryRegistry(t *testing.T) {
	for what, start := range map[string]func(t *testing.T) string{
		"with the referrers API":           func(t *testing.T) string { return faultyregistry.New(t, ggcr.WithReferrersSupport(true)).Host },
		"without it":                       func(t *testing.T) string { return faultyregistry.New(t).Host },
		"distribution, which lacks it too": realregistry.Start,
	} {
		t.Run(what, func(t *testing.T) {
			images, host := several(t), start(t)
			all := attachments(t, images["registry.k8s.io/other:v2"])
			a := attach(t, content(t, images), all)
			done, err := push(t.Context(), a, options(t, host))
			if err != nil || len(done.Images) != len(images)+len(all) {
				t.Fatalf("%+v, %v", done, err)
			}
			checkAttached(t, host, all)
			for _, i := range done.Images[len(images):] {
				if i.Subject != all[0].subject.String() || i.State != registry.Pushed {
					t.Errorf("%+v", i)
				}
			}
			again, err := push(t.Context(), a, options(t, host))
			if err != nil || again.Send+again.Mounted != 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
			for _, i := range again.Images {
				if i.State != registry.Present {
					t.Errorf("again: %+v", i)
				}
			}
		})
	}
}

// TestUnlistedAttachmentsAreListed uses a registry that dies between the upload of a signature and of the list that names it.
func TestUnlistedAttachmentsAreListed(t *testing.T) {
	s, images := newSite(t), several(t)
	all := attachments(t, images["registry.k8s.io/other:v2"])
	a := attach(t, content(t, images), all)
	var refused atomic.Int64
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		list := strings.HasSuffix(r.URL.Path, "/manifests/"+strings.Replace(all[0].subject.String(), ":", "-", 1))
		if list && r.Method == http.MethodPut {
			refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	o := options(t, s.Host)
	o.Patience = 20 * time.Millisecond
	if _, err := push(t.Context(), a, o); err == nil || refused.Load() == 0 {
		t.Fatalf("refused %d lists, %v", refused.Load(), err)
	}
	s.SetFault(nil)
	if _, err := push(t.Context(), a, options(t, s.Host)); err != nil {
		t.Fatal(err)
	}
	checkAttached(t, s.Host, all)
	s.checkAll(t, images)
}
