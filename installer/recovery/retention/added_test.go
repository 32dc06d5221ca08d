package retention

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

func TestOnlyAddedImagesAreRemoved(t *testing.T) {
	of := func(name string, origin runtime.Origin, reasons ...string) Image {
		return Image{runtime.Stored{Names: []string{name, name + "@sha256:1"}, Origin: origin}, reasons}
	}
	images := []Image{
		of("added", runtime.OfApplication, byAdding), of("unlisted", runtime.OfApplication, byUnknown, byAdding), of("loaded", runtime.OfPerson, byPerson),
		of("running", runtime.OfApplication, byContainers, byAdding), of("bundled", runtime.OfApplication, "app 1.0", byAdding),
	}
	for name, want := range map[string]string{
		"added": "", "added@sha256:1": "", "unlisted": "", "loaded": "was not added", "running": "still needed: used by containers", "bundled": "still needed: app 1.0",
		"absent": "has no image absent",
	} {
		got, err := added(images, name)
		if want == "" && (err != nil || !strings.HasPrefix(name, got.Names[0])) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestOtherNamesOfAnImageStay uses an image that several applications have.
func TestOtherNamesOfAnImageStay(t *testing.T) {
	all := []string{"reg/a:1", "reg/a:2", "reg/b:1", "reg/a@sha256:0", "reg/b@sha256:0", "sha256:1"}
	for name, row := range map[string]struct{ of, want []string }{
		"reg/a:1":        {all, []string{"reg/a:1"}},
		"reg/b:1":        {all, []string{"reg/b:1", "reg/b@sha256:0"}},
		"reg/a@sha256:0": {all, []string{"reg/a:1", "reg/a:2", "reg/a@sha256:0"}},
		"reg/c:1":        {[]string{"reg/c:1", "reg/c@sha256:0", "sha256:1"}, []string{"reg/c:1", "reg/c@sha256:0", "sha256:1"}},
	} {
		if got := ownNames(row.of, name); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAddedImagesStayOverUpgrades adds an image that a bundle had, too, goes on to bundles that lack it, and removes it.
func TestAddedImagesStayOverUpgrades(t *testing.T) {
	const ref = "registry.example/app:1"
	n := Node{Root: t.TempDir(), Socket: containerd.ForTest(t)}
	if err := os.MkdirAll(node.StateDir(n.Root), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Connect(t.Context(), n.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file := filepath.Join(t.TempDir(), "app.tar.gz")
	imagepackage.Write(t, file, ref)
	a, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	load := func(origin runtime.Origin) {
		t.Helper()
		layout, err := runtime.OpenLayout(a, "addons/app/1.0/images")
		if err == nil {
			layout.Origin = origin
			_, err = r.Load(t.Context(), layout, func(string) {})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, origin := range []runtime.Origin{runtime.OfBundle, runtime.OfApplication, runtime.OfBundle} {
		load(origin)
	}
	if err := Record(n.Root, a.Index.Packages); err != nil {
		t.Fatal(err)
	}
	if _, err := n.RemoveAdded(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "app 1.0") {
		t.Errorf("while the bundle has it: %v", err)
	}
	for _, upgrade := range []string{"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"} {
		if _, err := n.Keep(t.Context(), upgrade, "1.36.3", func(text string) { t.Error(text) }); err != nil {
			t.Fatal(err)
		}
		if err := Record(n.Root, []bundle.PackageInfo{{Name: "other", Version: upgrade}}); err != nil {
			t.Fatal(err)
		}
	}
	if image, err := n.Added(t.Context(), ref); err != nil || image.Origin != runtime.OfApplication {
		t.Fatalf("after upgrades: %+v, %v", image, err)
	}
	if removed, err := n.RemoveAdded(t.Context(), ref); err != nil || len(removed.Names) != 2 {
		t.Errorf("%+v, %v", removed, err)
	}
	if _, err := n.RemoveAdded(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "has no image") {
		t.Errorf("again: %v", err)
	}
}
