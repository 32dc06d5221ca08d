package relocate_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/install/relocate"
	"github.com/sealift/sealift/spec"
)

func objectOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// override changes the Installer by words of a command line.
func override(words ...string) func(*spec.Installer) (*spec.Installer, error) {
	return func(i *spec.Installer) (*spec.Installer, error) {
		changed, _, err := i.Override(words...)
		return changed, err
	}
}

// bundled writes a bundle of packages with version 1.0.0, and returns its path.
func (s *site) bundled(names ...string) string {
	s.Helper()
	installer := "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n"
	var b bundle.Bundle
	for _, name := range names {
		installer += fmt.Sprintf("  %s: {version: 1.0.0}\n", name)
		a, err := bundle.Open(filepath.Join(s.dir, name+"-1.0.0.tar.gz"))
		if err != nil {
			s.Fatal(err)
		}
		defer a.Close()
		b.Packages = append(b.Packages, a)
	}
	members, err := bundle.Render(s.Context(), []bundle.File{bundle.BytesFile(bundle.InstallerName, 0o644, []byte(installer))}, bundle.WriteOptions{})
	if err != nil {
		s.Fatal(err)
	}
	defer members[0].Close()
	b.Members = members
	var out bytes.Buffer
	if _, err := bundle.WriteBundle(s.Context(), &out, b); err != nil {
		s.Fatal(err)
	}
	path := filepath.Join(s.dir, "cluster.tar.gz")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// records lists the records of an add-on; other tests have theirs in the same cluster.
func (s *site) records(name string) []addon.Record {
	s.Helper()
	all, err := relocate.List(s.Context(), s.config)
	if err != nil {
		s.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r addon.Record) bool { return r.Name != name })
}
