package manifest_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/manifest"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"addons/b/1/Manifest", "addons/a/1/Manifest", "addons/a/template/base/Manifest", "addons/a/template/Manifest",
		"addons/a/1/install.sh", "scripts/Manifest", "packages/host/fio/Manifest", ".git/Manifest",
		"cases/x.manifest", "cases/Manifest.tmpl", "template/Manifest", "other",
	} {
		write(t, filepath.Join(dir, name), "")
	}
	tests := map[string]struct{ paths, want []string }{
		"a tree, without templates, hidden folders and kURL's shell file": {[]string{"."},
			[]string{"addons/a/1/Manifest", "addons/b/1/Manifest", "cases/x.manifest", "packages/host/fio/Manifest"}},
		"an add-on":                      {[]string{"addons/b/1"}, []string{"addons/b/1/Manifest"}},
		"a file, whatever its name":      {[]string{"other"}, []string{"other"}},
		"a template, when asked for":     {[]string{"template"}, []string{"template/Manifest"}},
		"paths in the order given, once": {[]string{"addons/b", "addons"}, []string{"addons/b/1/Manifest", "addons/a/1/Manifest"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := manifest.Find(below(dir, test.paths)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(below(dir, test.want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for name, path := range map[string]string{"a folder without any": "scripts", "what is not there": "gone"} {
		t.Run(name, func(t *testing.T) {
			if got, err := manifest.Find(filepath.Join(dir, path)); err == nil {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}

func below(dir string, names []string) []string {
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}
