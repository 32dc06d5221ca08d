package builder_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/bundle"
)

// sign puts what cosign would attach to an image into the registry.
func (w *world) sign(t *testing.T, repository, digest, content string) {
	t.Helper()
	signature, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer([]byte(content), "application/vnd.dev.cosign.simplesigning.v1+json"))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(w.registry + "/mirrored/" + repository + ":" + strings.Replace(digest, ":", "-", 1) + ".sig")
	if err == nil {
		err = remote.Write(ref, signature)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSignaturesAreLockedAndPacked(t *testing.T) {
	w := newWorld(t, "debian-12")
	digest := w.push(t, "app:1", layer(1, 1000))
	w.sign(t, "app", digest, "first")
	dir := addOn(t, "app", "image app registry.example.io/app:1\n")
	lockAddOn(t, w.builder(t, openCache(t), 4), dir, builder.LockMissing)
	if lock := readFile(t, filepath.Join(dir, "Manifest.lock")); !strings.Contains(lock, "subject: "+digest) || !strings.Contains(lock, ".sig\n") {
		t.Errorf("the lock is\n%s", lock)
	}
	first := build(t, w.following(t), dir)
	list := bundle.AddOnDir("app", "1.0") + "/images/" + bundle.ReferrersName
	if !slices.Contains(entries(t, first.Path), list) {
		t.Errorf("the package has %v", entries(t, first.Path))
	}

	w.sign(t, "app", digest, "second")
	if again := build(t, w.following(t), dir); again.SHA256 != first.SHA256 {
		t.Error("the lock did not keep the signature")
	}
	if checked := lockAddOn(t, w.builder(t, openCache(t), 4), dir, builder.LockCheck); len(checked.Changes) != 1 || !strings.HasSuffix(checked.Changes[0].What, ".sig") {
		t.Errorf("changes are %+v", checked.Changes)
	}

	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: settings, Targets: w.targets, WithoutReferrers: true})
	if err != nil {
		t.Fatal(err)
	}
	if without := build(t, b, dir); slices.Contains(entries(t, without.Path), list) {
		t.Error("WithoutReferrers was ignored")
	}
}
