package builder_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
)

func TestCompareReportsChangesOfBuild(t *testing.T) {
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name    string
		change  func(t *testing.T, dir string)
		options builder.Options
		want    []string
	}{
		{"nothing", func(*testing.T, string) {}, builder.Options{Jobs: 3}, nil},
		{"an asset", func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "notes.txt"), "other") }, builder.Options{},
			[]string{"asset addons/demo/1.0/assets/notes: has changed", "file addons/demo/1.0/notes.txt: has changed"}},
		{"a new file", func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "new"), "") }, builder.Options{},
			[]string{"file addons/demo/1.0/new: is new"}},
		{"the mode of a file", func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "notes.txt"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, builder.Options{}, []string{"file addons/demo/1.0/notes.txt: has changed"}},
		{"a directive that is gone", func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "Manifest"), "") }, builder.Options{},
			[]string{"asset addons/demo/1.0/assets/notes: is gone", "file addons/demo/1.0/Manifest: has changed"}},
		{"another platform", func(*testing.T, string) {}, builder.Options{Platforms: []string{"linux/arm64"}}, []string{"platforms: linux/amd64 → linux/arm64"}},
		{"a key", func(*testing.T, string) {}, builder.Options{Key: key}, []string{"signature: not by this key"}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			dir := addOn(t, "demo", "asset notes ./notes.txt\n")
			writeFile(t, filepath.Join(dir, "notes.txt"), "notes")
			newBuilder := func(o builder.Options) *builder.Builder {
				o.Config = config.Default()
				b, err := builder.New(openCache(t), o)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			built, err := newBuilder(builder.Options{}).Build(t.Context(), dir, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			step.change(t, dir)
			c, err := newBuilder(step.options).Compare(t.Context(), dir, func(name, version string) (*bundle.Archive, error) { return bundle.Open(built.Path) })
			if err != nil || c.Name != built.Name || c.Version != built.Version {
				t.Fatalf("%+v, %v", c, err)
			}
			if got := strings.Join(c.Changes, "\n"); got != strings.Join(step.want, "\n") {
				t.Errorf("changes are\n%s", got)
			}
		})
	}
}

func TestCompareReportsFirstBuild(t *testing.T) {
	dir := addOn(t, "demo", "")
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Compare(t.Context(), dir, func(name, version string) (*bundle.Archive, error) {
		return nil, fmt.Errorf("%s %s: %w", name, version, fs.ErrNotExist)
	})
	if err != nil || len(c.Changes) != 1 || c.Changes[0] != "there is no package yet" {
		t.Errorf("%+v, %v", c, err)
	}
}

// published builds the package of an add-on, for Compare.
func published(t *testing.T, dir string) func(name, version string) (*bundle.Archive, error) {
	t.Helper()
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	built := build(t, b, dir)
	return func(string, string) (*bundle.Archive, error) { return bundle.Open(built.Path) }
}

func TestCompareListsWhatCannotBeCompared(t *testing.T) {
	dir := addOn(t, "demo", "asset notes ./notes.txt\n")
	writeFile(t, filepath.Join(dir, "notes.txt"), "notes")
	before := published(t, dir)
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	c, err := b.Compare(t.Context(), dir, before)
	if err != nil || len(c.Changes) != 1 || !strings.HasPrefix(c.Changes[0], "cannot be compared: ") || !strings.Contains(c.Changes[0], "notes.txt") {
		t.Errorf("without a file: %+v, %v", c, err)
	}
	damaged := fmt.Errorf("demo-1.0.tar.gz in the store: %w: truncated", builder.ErrUnreadable)
	c, err = b.Compare(t.Context(), dir, func(string, string) (*bundle.Archive, error) { return nil, damaged })
	if err != nil || len(c.Changes) != 1 || c.Changes[0] != damaged.Error() {
		t.Errorf("with a damaged package: %+v, %v", c, err)
	}
	if _, err = b.Compare(t.Context(), dir, func(string, string) (*bundle.Archive, error) { return nil, fs.ErrPermission }); err == nil {
		t.Error("the store did not answer, and the add-on counts as changed")
	}
}

// TestCompareNeedsNoToolsForLockedPackages has a machine without apt.
func TestCompareNeedsNoToolsForLockedPackages(t *testing.T) {
	dir := addOn(t, "demo", "")
	before := published(t, dir)
	t.Setenv("PATH", t.TempDir())
	writeFile(t, filepath.Join(dir, "Manifest"), "apt socat\n")
	l := lock.Lock{Targets: []lock.Target{{Name: "debian-12", Platform: "linux/amd64", Names: []string{"socat"}, Packages: []lock.Package{{
		HostPackageID: bundle.HostPackageID{Name: "socat", Version: "1.7.4.4-2", Arch: "amd64"},
		URL:           "http://ftp.debian.org/debian/pool/main/s/socat/socat_1.7.4.4-2_amd64.deb",
		Blob:          bundle.Blob{SHA256: strings.Repeat("a", 64), Size: 7},
	}}}}}
	if _, err := l.Save(filepath.Join(dir, lock.FileName)); err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default(), Targets: []string{"debian-12"}, Locked: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Compare(t.Context(), dir, before)
	want := "targets:  → debian-12\nhost package debian-12 socat amd64: is new\nfile addons/demo/1.0/Manifest: has changed"
	if got := strings.Join(c.Changes, "\n"); err != nil || got != want {
		t.Errorf("changes are %v\n%s", err, got)
	}
	if _, err := b.Build(t.Context(), dir, t.TempDir()); err == nil {
		t.Error("a build took a locked package that no archive has vouched for")
	}
}

func TestOwnFilesBesideCarriedOnesAreCompared(t *testing.T) {
	dir := addOn(t, "demo", "")
	for _, name := range []string{"images/logo.png", "packages/notes.txt", "charts/none/rendered.yaml"} {
		writeFile(t, filepath.Join(dir, name), "first")
	}
	before := published(t, dir)
	b, err := builder.New(openCache(t), builder.Options{Config: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Compare(t.Context(), dir, before)
	if err != nil || len(c.Changes) > 0 {
		t.Errorf("nothing has changed: %v, %v", c.Changes, err)
	}
	writeFile(t, filepath.Join(dir, "images/logo.png"), "second")
	if err := os.Remove(filepath.Join(dir, "packages/notes.txt")); err != nil {
		t.Fatal(err)
	}
	c, err = b.Compare(t.Context(), dir, before)
	want := "file addons/demo/1.0/images/logo.png: has changed; file addons/demo/1.0/packages/notes.txt: is gone"
	if got := strings.Join(c.Changes, "; "); err != nil || got != want {
		t.Errorf("changes are %v\n%s", err, got)
	}
}

func TestMovedTagIsChange(t *testing.T) {
	w := newWorld(t)
	dir := addOn(t, "demo", "image one registry.example.io/one:1\n")
	shared := layer(1, 1000)
	w.push(t, "one:1", shared)
	b := w.builder(t, openCache(t), 4)
	built := build(t, b, dir)
	for _, step := range []struct {
		want   string
		layers []v1.Layer
	}{
		{"", []v1.Layer{shared}},
		{"image one registry.example.io/one:1: has changed", []v1.Layer{shared, layer(2, 1000)}},
	} {
		w.push(t, "one:1", step.layers...)
		b := w.builder(t, openCache(t), 4) // a builder requests each name once
		c, err := b.Compare(t.Context(), dir, func(string, string) (*bundle.Archive, error) { return bundle.Open(built.Path) })
		if err != nil || strings.Join(c.Changes, "; ") != step.want {
			t.Errorf("%v, %v; want %q", c.Changes, err, step.want)
		}
	}
}
