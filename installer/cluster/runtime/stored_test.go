package runtime_test

import (
	"slices"
	"strings"
	"testing"

	containerdclient "github.com/containerd/containerd/v2/client"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
)

// TestImagesAreListedAndRemoved loads images for a bundle and for a person, and removes one with all of its names.
func TestImagesAreListedAndRemoved(t *testing.T) {
	r := connect(t)
	shared := image(t, 2)
	of := openLayout(t, archive(t, map[string]v1.Image{"registry.example/app:1": shared, "registry.example/old:1": image(t, 1)}))
	by := openLayout(t, archive(t, map[string]v1.Image{"registry.example/app:1": shared}))
	by.Origin = runtime.OfPerson
	for _, layout := range []*runtime.Layout{of, by, of} { // what a person has loaded stays a person's
		if _, err := r.Load(t.Context(), layout, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.Images(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []runtime.Stored{{Names: []string{"registry.example/app:1"}, Origin: runtime.OfPerson}, {Names: []string{"registry.example/old:1"}, Origin: runtime.OfBundle}} {
		got := all[i]
		if got.Names[0] != want.Names[0] || len(got.Names) != 2 || got.Origin != want.Origin || !got.Pinned || got.Containers != 0 {
			t.Errorf("got %+v", got)
		}
		if least := int64(100_000); got.Bytes < least {
			t.Errorf("%s has %d bytes, less than one layer", got.Names[0], got.Bytes)
		}
	}
	for range 2 { // the second time, there is nothing
		if err := r.Remove(t.Context(), all[1]); err != nil {
			t.Fatal(err)
		}
	}
	if rest, err := r.Images(t.Context()); err != nil || len(rest) != 1 || rest[0].Digest != all[0].Digest {
		t.Errorf("%+v, %v", rest, err)
	}
	if result, err := r.Load(t.Context(), of, func(string) {}); err != nil || result.Loaded != 1 || result.Present != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestImagesAreKnownByTheirConfiguration asks for an image by one of its two names. A copy has a third one, as after a pull by the kubelet.
func TestImagesAreKnownByTheirConfiguration(t *testing.T) {
	socket := containerd.ForTest(t)
	r, err := runtime.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	app := image(t, 1)
	layout := openLayout(t, archive(t, map[string]v1.Image{"registry.example/app:1": app, "registry.example/other:1": image(t, 1)}))
	if _, err := r.Load(t.Context(), layout, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if names := layout.Names(); len(names) != 2 || !slices.Contains(names, "registry.example/app:1") {
		t.Errorf("names: %q", names)
	}
	client, err := containerdclient.New(socket, containerdclient.WithDefaultNamespace("k8s.io"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	copied, err := client.ImageService().Get(t.Context(), "registry.example/app:1")
	if err != nil {
		t.Fatal(err)
	}
	copied.Name, copied.Labels = "private.example/copy:1", nil
	if _, err := client.ImageService().Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	config, err := app.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Known(t.Context(), "registry.example/app:1", "registry.example/absent:1")
	if err != nil || len(got) != 1 || got[0].ID != config.String() {
		t.Fatalf("%+v, %v; want one with the ID %s", got, err, config)
	}
	slices.Sort(got[0].Names)
	if names := got[0].Names; len(names) != 2 || names[0] != "registry.example/app:1" || !strings.HasPrefix(names[1], "registry.example/app@sha256:") {
		t.Errorf("names: %q", names)
	}
}
