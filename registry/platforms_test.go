package registry_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/registry"
)

// listed returns the digests that a tag below the prefix leads to: those that its index lists, or its own.
func listed(t *testing.T, host, target string) map[string]bool {
	t.Helper()
	ref, err := name.ParseReference(host + "/mirror/" + target)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	if !got.MediaType.IsIndex() {
		return map[string]bool{got.Digest.String(): true}
	}
	index, err := got.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, one := range manifest.Manifests {
		all[one.Digest.String()] = true
	}
	return all
}

// TestPlatformsOfSeveralBundlesStayUnderOneTag pushes one image from archives with different platforms to distribution, which refuses indexes
// with absent manifests.
func TestPlatformsOfSeveralBundlesStayUnderOneTag(t *testing.T) {
	host := realregistry.Start(t)
	amd, arm, other := platformImage(t, "amd64", layer(t, 1)), platformImage(t, "arm64", layer(t, 2)), platformImage(t, "s390x", layer(t, 3))
	whole := map[string]v1.ImageIndex{"registry.k8s.io/app:v1": index(amd, arm, other)}
	absent := func(images ...v1.Image) (hidden []string) {
		for _, one := range images {
			digest, err := one.Digest()
			if err != nil {
				t.Fatal(err)
			}
			hidden = append(hidden, digest.Hex)
		}
		return hidden
	}
	ofAMD, ofARM := content(t, whole, absent(arm, other)...), content(t, whole, absent(amd, other)...)
	o := recorded(t, host)
	if _, err := push(t.Context(), ofARM, o); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, host, "registry.k8s.io/app:v1"); len(got) != 1 || !got[digestOf(t, arm)] {
		t.Fatalf("after the first push the tag has %v", got)
	}
	planned, err := registry.Prepare(t.Context(), ofAMD, o)
	if err != nil || planned.Images[0].State != registry.Missing {
		t.Errorf("the plan loses platforms: %+v, %v", planned.Images, err)
	}
	second, err := push(t.Context(), ofAMD, o)
	if err != nil || second.Images[0].State != registry.Pushed || second.Images[0].Note == "" {
		t.Fatalf("%+v, %v", second, err)
	}
	if got := listed(t, host, "registry.k8s.io/app:v1"); len(got) != 2 || !got[digestOf(t, arm)] || !got[digestOf(t, amd)] {
		t.Errorf("after the second push the tag has %v", got)
	}
	for _, a := range []*bundle.Archive{ofARM, ofAMD} {
		again, err := push(t.Context(), a, o)
		if err != nil || again.Images[0].State != registry.Present || again.Images[0].Digest != second.Images[0].Digest {
			t.Errorf("again: %+v, %v", again.Images, err)
		}
	}
	if states := prune(t, withChart(t, "none", nil), o); len(states[registry.Removed]) != 1 || exists(t, host, "registry.k8s.io/app:v1") {
		t.Errorf("the record lacks the digest that was pushed: %v", states)
	}
}

// TestPruneLeavesTagThatPushExtends has one platform of an image that somebody else has pushed, and brings another one.
func TestPruneLeavesTagThatPushExtends(t *testing.T) {
	host := realregistry.Start(t)
	amd, arm := platformImage(t, "amd64", layer(t, 1)), platformImage(t, "arm64", layer(t, 2))
	theirs, err := name.ParseReference(host + "/mirror/registry.k8s.io/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(theirs, arm); err != nil {
		t.Fatal(err)
	}
	o := recorded(t, host)
	a := content(t, map[string]v1.ImageIndex{"registry.k8s.io/app:v1": index(amd, arm)}, strings.TrimPrefix(digestOf(t, arm), "sha256:"))
	if done, err := push(t.Context(), a, o); err != nil || done.Images[0].State != registry.Pushed {
		t.Fatalf("%+v, %v", done, err)
	}
	if states := prune(t, withChart(t, "none", nil), o); len(states[registry.Removed]) > 0 {
		t.Errorf("the tag counts as the push's: %v", states)
	}
	if got := listed(t, host, "registry.k8s.io/app:v1"); !got[digestOf(t, arm)] || !got[digestOf(t, amd)] {
		t.Errorf("the tag has %v", got)
	}
}

// TestLostManifestsArePushedAgain deletes a manifest below the index that a tag leads to.
func TestLostManifestsArePushedAgain(t *testing.T) {
	host := realregistry.Start(t)
	amd, arm := platformImage(t, "amd64", layer(t, 1)), platformImage(t, "arm64", layer(t, 2))
	images := map[string]v1.ImageIndex{"registry.k8s.io/app:v1": index(amd, arm)}
	a := content(t, images)
	if _, err := push(t.Context(), a, options(t, host)); err != nil {
		t.Fatal(err)
	}
	lost, err := name.ParseReference(host + "/mirror/registry.k8s.io/app@" + digestOf(t, arm))
	if err == nil {
		err = remote.Delete(lost)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, err := push(t.Context(), a, options(t, host)); err != nil || again.Images[0].State != registry.Pushed {
		t.Errorf("%+v, %v", again.Images, err)
	}
	check(t, host+"/mirror/registry.k8s.io/app:v1", images["registry.k8s.io/app:v1"])
}

// TestImageOfSeveralPackagesHasTheMostPlatforms pushes a bundle whose first package has fewer platforms of an image than the second one.
func TestImageOfSeveralPackagesHasTheMostPlatforms(t *testing.T) {
	amd, arm := platformImage(t, "amd64", layer(t, 1)), platformImage(t, "arm64", layer(t, 2))
	images := map[string]v1.ImageIndex{"registry.k8s.io/app:v1": index(amd, arm)}
	_, hex, _ := strings.Cut(digestOf(t, arm), ":")
	less, whole := packageOf(t, "a", images, hex), packageOf(t, "b", images)
	for _, packages := range [][]*bundle.Archive{{less, whole}, {whole, less}} {
		s := newSite(t)
		var out bytes.Buffer
		if _, err := bundle.WriteBundle(t.Context(), &out, bundle.Bundle{Packages: packages}); err != nil {
			t.Fatal(err)
		}
		a, err := bundle.NewArchive(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := push(t.Context(), a, options(t, s.Host)); err != nil || got.Images[0].Note != "" {
			t.Errorf("%+v, %v", got.Images, err)
		}
		s.checkAll(t, images)
	}
}

// TestReplacedTagsAreShown pushes over a tag that somebody else has made.
func TestReplacedTagsAreShown(t *testing.T) {
	s := newSite(t)
	theirs, ours := index(platformImage(t, "amd64", layer(t, 1))), index(platformImage(t, "amd64", layer(t, 2)))
	write(t, s.Host, "a.example/app:1", theirs)
	a := content(t, map[string]v1.ImageIndex{"a.example/app:1": ours, "a.example/new:1": ours})
	o := recorded(t, s.Host)
	p, err := registry.Prepare(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range p.Images {
		if i.Ref == "a.example/new:1" && (i.State != registry.Missing || i.Replaces != "") || i.Ref == "a.example/app:1" && (i.State != registry.Replaced || i.Replaces != digestOf(t, theirs)) {
			t.Errorf("planned %+v", i)
		}
	}
	if p.Send == 0 {
		t.Error("nothing is sent for the tag that is moved")
	}
	if _, err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, s.Host+"/mirror/a.example/app:1", ours)
	if states := prune(t, withChart(t, "none", nil), o); len(states[registry.Removed]) != 2 {
		t.Errorf("the record lacks the tag that was moved: %v", states)
	}
}

// TestImagesWithoutTagsArePushedAndPruned has images named by digest alone, one of which lacks a platform, in distribution: it refuses the
// index, and does not list the tags of a repository without any.
func TestImagesWithoutTagsArePushedAndPruned(t *testing.T) {
	host := realregistry.Start(t)
	amd, other := platformImage(t, "amd64", layer(t, 1)), platformImage(t, "s390x", layer(t, 2))
	whole, less := index(amd), index(amd, other)
	_, hex, _ := strings.Cut(digestOf(t, other), ":")
	a := content(t, map[string]v1.ImageIndex{"a.example/whole@" + digestOf(t, whole): whole, "a.example/less@" + digestOf(t, less): less}, hex)
	o := recorded(t, host)
	done, err := push(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range done.Images {
		if lacks := strings.HasPrefix(i.Ref, "a.example/less"); lacks != strings.Contains(i.Note, "lacks some of its platforms") || i.State != registry.Pushed {
			t.Errorf("%+v", i)
		}
	}
	check(t, host+"/mirror/a.example/less@"+digestOf(t, amd), amd)
	check(t, host+"/mirror/a.example/whole@"+digestOf(t, whole), whole)
	states := prune(t, withChart(t, "none", nil), o)
	if want := []string{"a.example/whole@" + digestOf(t, whole)}; !slices.Equal(states[registry.Removed], want) || exists(t, host, want[0]) {
		t.Errorf("%v", states)
	}
}
