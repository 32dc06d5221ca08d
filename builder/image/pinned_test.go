package image_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/image"
)

func TestPinnedImageIsFetchedByDigest(t *testing.T) {
	r := newRegistry(t)
	first := r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 1), newImage(t, "linux", "arm64", 1)))
	b := newBench(t, r)
	locked := b.pull(t, "app:1")
	if moved := r.pushIndex(t, "mirrored/app:1", newIndex(t, newImage(t, "linux", "amd64", 3))); moved == first {
		t.Fatal("the tag did not move")
	}
	ref, err := image.ParseReference(upstream + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	amd := []string{"linux/amd64"}

	t.Run("is what it was when its tag has moved", func(t *testing.T) {
		r.SetFault(nil)
		other := newBench(t, r)
		got, err := other.ResolvePinned(t.Context(), ref, locked.Root, amd)
		if err != nil || got.Ref != locked.Ref || got.Root != locked.Root || got.Manifests[0].Digest != locked.Manifests[0].Digest {
			t.Fatalf("resolved to %+v, %v; want %+v", got, err, locked)
		}
		for _, d := range got.Blobs() {
			if _, err := other.Fetch(t.Context(), got, d); err != nil {
				t.Error(err)
			}
		}
		if n := r.Count("", "/manifests/1"); n != 0 {
			t.Errorf("the tag was asked for %d times", n)
		}
	})
	t.Run("needs no registry when the cache has it", func(t *testing.T) {
		r.SetFault(nil)
		if _, err := b.ResolvePinned(t.Context(), ref, locked.Root, amd); err != nil {
			t.Error(err)
		}
		if n := r.Count("", "/"); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	})
	t.Run("has every platform that it had", func(t *testing.T) {
		got, err := newBench(t, r).ResolvePinned(t.Context(), ref, locked.Root, []string{"linux/amd64", "linux/arm64"})
		if err != nil || len(got.Manifests) != 2 {
			t.Errorf("resolved to %+v, %v", got, err)
		}
	})
	t.Run("that the registry has lost says what to do", func(t *testing.T) {
		gone := locked.Root
		gone.Digest = "sha256:" + strings.Repeat("a", 64)
		_, err := newBench(t, r).ResolvePinned(t.Context(), ref, gone, amd)
		var typed *image.Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), "app@"+gone.Digest) || !strings.Contains(typed.Hint(), "sealift lock --update") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("with a digest that is none is refused", func(t *testing.T) {
		bad := locked.Root
		bad.Digest = "sha256:../../etc"
		if _, err := b.ResolvePinned(t.Context(), ref, bad, amd); err == nil {
			t.Error("accepted")
		}
	})
}
