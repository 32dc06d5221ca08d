package runtime_test

import (
	"bytes"
	"compress/gzip"
	"slices"
	"testing"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
)

// TestEveryImageIsPinned loads images in every possible way, and some that existed unpinned.
func TestEveryImageIsPinned(t *testing.T) {
	socket := containerd.ForTest(t)
	r, err := runtime.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := client.New(socket, client.WithDefaultNamespace("k8s.io"))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	service := all.ImageService()

	layout := archive(t, map[string]v1.Image{"example.org/layout:1": image(t, 1)})
	packed := dockerArchive(t, map[string]string{"packed": "example.org/packed:1"}, map[string]v1.Image{"packed": image(t, 1)})
	var plain, zipped bytes.Buffer
	for tag, file := range map[string]*bytes.Buffer{"example.org/plain:1": &plain, "example.org/zipped:1": &zipped} {
		ref, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := tarball.Write(ref, image(t, 1), file); err != nil {
			t.Fatal(err)
		}
	}
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write(zipped.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for round, changes := range []int{2, 1} { // the second time one of them exists, without its pin
		for _, a := range []*runtime.Layout{openLayout(t, layout), openLayout(t, packed)} {
			got, err := r.Load(t.Context(), a, func(string) {})
			if err != nil || round == 0 && got.Loaded != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			changes -= got.Loaded
		}
		if changes != 0 {
			t.Errorf("round %d: %d images less than expected were loaded", round, changes)
		}
		for want, file := range map[string]*bytes.Buffer{"example.org/plain:1": &plain, "example.org/zipped:1": &gz} {
			if names, err := r.Import(t.Context(), bytes.NewReader(file.Bytes())); err != nil || !slices.Equal(names, []string{want}) {
				t.Fatalf("%s: %v, %v", want, names, err)
			}
		}
		found, err := service.List(t.Context())
		if err != nil || len(found) != 5 { // the layout's has two names
			t.Fatalf("%v, %v", found, err)
		}
		for _, one := range found {
			if one.Labels["io.cri-containerd.pinned"] != "pinned" {
				t.Errorf("%s is not pinned: %v", one.Name, one.Labels)
			}
		}
		if _, err := service.Update(t.Context(), images.Image{Name: "example.org/layout:1"}, "labels"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Import(t.Context(), bytes.NewReader([]byte("no archive"))); err == nil {
		t.Error("what is not an archive was taken for one")
	}
}
