package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

const apiserver = "registry.k8s.io/kube-apiserver"

// TestDigestsInNamesMustMatch adds other content under the digest of an image, from each kind of source.
func TestDigestsInNamesMustMatch(t *testing.T) {
	socket := containerd.ForTest(t)
	image, other := shopImage(t, 1000), shopImage(t, 1000)
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	pinned := apiserver + "@" + digest.String()
	bundled := filepath.Join(t.TempDir(), "app.tar.gz")
	imagepackage.Write(t, bundled, pinned)
	for kind, row := range map[string]struct {
		source, name string
		unread       bool // only the whole file shows it
	}{
		"a package":        {bundled, "", false},
		"a folder":         {ociLayout(t, other, pinned), "", false},
		"a tag beside it":  {ociLayout(t, other, apiserver+":v1.36.3@"+digest.String()), "", false},
		"by --name":        {ociLayout(t, other, ""), pinned, false},
		"an archive":       {tarOf(t, ociLayout(t, other, pinned), "a.tar"), "", false},
		"compressed":       {tarOf(t, ociLayout(t, other, pinned), "a.tar.gz"), "", true},
		"a docker-archive": {unnamedDocker(t, other), pinned, true},
	} {
		o := from(row.source, socket, row.name)
		plan, err := OpenImages(t.Context(), o)
		if row.unread && err == nil {
			err = plan.Close()
			if _, refused := add(t.Context(), o); err == nil {
				err = refused
			}
		}
		if err == nil || !strings.Contains(err.Error(), "its content has the digest") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	r, err := runtime.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hooks := t.TempDir()
	if err := imagepackage.WriteLayout(hooks, pinned, 1, 1000); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(tarOf(t, hooks, "hook.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := r.Import(t.Context(), file); err == nil || !strings.Contains(err.Error(), "its content has the digest") {
		t.Errorf("a hook's import: %v", err)
	}
	if got := stored(t, socket); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
	if _, err := add(t.Context(), from(ociLayout(t, image, pinned), socket, "")); err != nil || len(stored(t, socket)) != 1 {
		t.Errorf("the image itself: %v", err)
	}
}

// unnamedDocker writes a docker-archive whose image has no name.
func unnamedDocker(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{map[string]any{"Config": "config.json", "Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("manifest.json", text)
	write("config.json", config)
	write("layer.tar", nil)
	return tarOf(t, dir, "docker.tar")
}

// TestBundleImagesAreNotReplaced adds images of applications under a name of the installed bundle.
func TestBundleImagesAreNotReplaced(t *testing.T) {
	socket := containerd.ForTest(t)
	const ref = apiserver + ":v1.36.3"
	installed := filepath.Join(t.TempDir(), "installed.tar.gz")
	image, other := shopImage(t, 1000), shopImage(t, 1000)
	imagepackage.WriteImage(t, installed, ref, image)
	loadAsBundle(t, socket, installed)
	before := stored(t, socket)[ref]
	another := filepath.Join(t.TempDir(), "another.tar.gz")
	imagepackage.WriteImage(t, another, ref, other)
	for kind, row := range map[string]struct {
		source, name string
		unread       bool
	}{
		"a package":        {another, "", false},
		"a folder":         {ociLayout(t, other, ref), "", false},
		"by --name":        {ociLayout(t, other, ""), ref, false},
		"compressed":       {tarOf(t, ociLayout(t, other, ref), "a.tar.gz"), "", true},
		"a docker-archive": {dockerSave(t, other, ref), "", true},
	} {
		o := from(row.source, socket, row.name)
		plan, err := OpenImages(t.Context(), o)
		if row.unread && err == nil {
			err = plan.Close()
			if _, refused := add(t.Context(), o); err == nil {
				err = refused
			}
		}
		if err == nil || !strings.Contains(err.Error(), "another image "+ref) || !strings.Contains(err.Error(), "--name") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if now := stored(t, socket)[ref]; now.Digest != before.Digest || now.Origin != runtime.OfBundle {
		t.Errorf("it was %+v, and is %+v", before, now)
	}
	if _, err := add(t.Context(), from(ociLayout(t, image, ref), socket, "")); err != nil {
		t.Errorf("the same image: %v", err)
	}
}

// loadAsBundle loads the images of a package as an install does.
func loadAsBundle(t *testing.T, socket, file string) {
	t.Helper()
	a, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	layouts, err := layoutsOf(a, runtime.OfBundle, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, l := range layouts {
		if _, err := r.Load(t.Context(), l, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNamesOfCompressedArchivesFollowTheSameRules compares a folder with a compressed archive of it, which is not read before.
func TestNamesOfCompressedArchivesFollowTheSameRules(t *testing.T) {
	socket := containerd.ForTest(t)
	two := func(first, second string) string {
		dir := ociLayout(t, shopImage(t, 1000), first)
		path, err := layout.FromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		annotations := map[string]string{}
		if second != "" {
			annotations[ocispec.AnnotationRefName] = second
		}
		if err := path.AppendImage(shopImage(t, 1000), layout.WithAnnotations(annotations)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for kind, row := range map[string]struct{ dir, name, want string }{
		"a name too many":    {ociLayout(t, shopImage(t, 1000), shop), "shop:3", "leave --name out"},
		"none too few":       {ociLayout(t, shopImage(t, 1000), ""), "", "name it with --name"},
		"one name for two":   {two("", ""), "shop:4", "has 2 images without a name"},
		"unnamed beside one": {two(shop, ""), "", "without a name beside " + shop},
	} {
		for _, source := range []string{row.dir, tarOf(t, row.dir, "a.tar.gz")} {
			if _, err := add(t.Context(), from(source, socket, row.name)); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: %s: %v", kind, filepath.Base(source), err)
			}
		}
	}
	if got := stored(t, socket); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
	dir := two(shop, "")
	for _, source := range []string{dir, tarOf(t, dir, "a.tar.gz")} {
		got, err := add(t.Context(), from(source, socket, "shop:5"))
		slices.Sort(got.Images)
		if want := []string{"docker.io/library/shop:5", shop}; err != nil || !slices.Equal(got.Images, want) {
			t.Errorf("%s: %v, %v", filepath.Base(source), got.Images, err)
		}
	}
}
