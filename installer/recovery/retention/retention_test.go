package retention

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

func TestImagesStayWhileSomethingNeedsThem(t *testing.T) {
	one, two := digest.FromString("one"), digest.FromString("two")
	app := bundle.PackageInfo{Name: "app", Version: "2.0", Contents: bundle.Contents{Images: []bundle.Image{{Ref: "registry.example/app:2@" + two.String(), Digest: two.String()}}}}
	old := bundle.PackageInfo{Name: "app", Version: "1.0", Contents: bundle.Contents{Images: []bundle.Image{{Ref: "registry.example/app:1", Digest: one.String()}}}}
	known := []carried{{packages: []bundle.PackageInfo{app}}}
	for name, row := range map[string]struct {
		image   runtime.Stored
		bundles []carried
		want    []string
	}{
		"in the bundle":            {runtime.Stored{Digest: two, Origin: runtime.OfBundle}, known, []string{"app 2.0"}},
		"a docker-archive":         {runtime.Stored{Digest: one, Names: []string{"registry.example/app:2"}, Origin: runtime.OfBundle}, known, []string{"app 2.0"}},
		"wanted by an undo":        {runtime.Stored{Digest: one, Origin: runtime.OfBundle}, []carried{{packages: []bundle.PackageInfo{app}}, {" for an undo to Kubernetes 1.36.3", []bundle.PackageInfo{old}}}, []string{"app 1.0 for an undo to Kubernetes 1.36.3"}},
		"of an earlier bundle":     {runtime.Stored{Digest: one, Names: []string{"registry.example/app:1"}, Origin: runtime.OfBundle}, known, []string{}},
		"a tag that was moved":     {runtime.Stored{Digest: one, Names: []string{"registry.example/app@" + one.String()}, Origin: runtime.OfBundle}, known, []string{}},
		"used by containers":       {runtime.Stored{Digest: one, Origin: runtime.OfBundle, Containers: 1}, known, []string{byContainers}},
		"loaded by a person":       {runtime.Stored{Digest: one, Origin: runtime.OfPerson}, known, []string{byPerson}},
		"added for applications":   {runtime.Stored{Digest: one, Origin: runtime.OfApplication}, known, []string{byAdding}},
		"pulled by somebody":       {runtime.Stored{Digest: one}, known, []string{byOthers}},
		"without a list":           {runtime.Stored{Digest: one, Origin: runtime.OfBundle}, nil, []string{byUnknown}},
		"pinned without an origin": {runtime.Stored{Digest: one, Pinned: true}, known, []string{byOthers}},
	} {
		if diff := cmp.Diff(row.want, reasons(row.image, row.bundles)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestEarlierImagesGoWhenAnUpgradeBegins uses a node that goes from one bundle to a second and a third. The images of the first stay
// until the third comes: then nothing goes back to them.
func TestEarlierImagesGoWhenAnUpgradeBegins(t *testing.T) {
	n := Node{Root: t.TempDir(), Socket: containerd.ForTest(t)}
	if err := os.MkdirAll(node.StateDir(n.Root), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Connect(t.Context(), n.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	names := func() (found []string) {
		t.Helper()
		images, err := n.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range images {
			found = append(found, i.Names[0])
		}
		return found
	}
	begin := func(upgrade string) (notes []string) {
		t.Helper()
		if _, err := n.Keep(t.Context(), upgrade, "1.36.3", func(text string) { notes = append(notes, text) }); err != nil {
			t.Fatal(err)
		}
		return notes
	}
	all := []string{"registry.example/app:1", "registry.example/app:2", "registry.example/app:3"}
	load := func(ref string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "app.tar.gz")
		imagepackage.Write(t, file, ref)
		a, err := bundle.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if err := Record(n.Root, a.Index.Packages); err != nil {
			t.Fatal(err)
		}
		layout, err := runtime.OpenLayout(a, "addons/app/1.0/images")
		if err == nil {
			_, err = r.Load(t.Context(), layout, func(string) {})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	load(all[0])
	for step, upgrade := range []string{"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"} {
		if notes := begin(upgrade); len(notes) > 0 {
			t.Errorf("%s: %v", upgrade, notes)
		}
		load(all[step+1])
		if notes := begin(upgrade); len(notes) > 0 { // killed, and run again
			t.Errorf("%s again: %v", upgrade, notes)
		}
		if got := names(); !slices.Equal(got, all[:step+2]) {
			t.Errorf("%s: %v", upgrade, got)
		}
	}
	if unneeded, err := n.Unneeded(t.Context()); err != nil || len(unneeded) > 0 {
		t.Errorf("the last two upgrades can be undone: %+v, %v", unneeded, err)
	}
	if notes := begin("cccccccccccccccc"); len(notes) != 1 || !slices.Equal(names(), all[1:]) {
		t.Errorf("%v: %v", notes, names())
	}
	set, err := undo.Store{Root: n.Root}.Of("bbbbbbbbbbbbbbbb")
	if err == nil {
		err = set.Remove()
	}
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := n.Prune(t.Context()); err != nil || len(removed) != 1 || removed[0].Names[0] != all[1] {
		t.Errorf("%+v, %v", removed, err)
	}
	if removed, err := n.Prune(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("again: %+v, %v", removed, err)
	}
}
