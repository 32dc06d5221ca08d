package upstream

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// ModuleManifest joins manifests that lie in a Go module to one file, as a release of the module has it.
type ModuleManifest struct {
	Path    string // of the module
	Version string // of the module
	Folder  string // whose YAML files are joined, in the order of their names
	File    string // the result
}

// Needs implements Recipe.
func (m ModuleManifest) Needs() []string { return nil }

// Tools implements Recipe.
func (m ModuleManifest) Tools() []debian.Tool { return nil }

// Make implements Recipe.
func (m ModuleManifest) Make(ctx context.Context, _ *Workshop, dir string) error {
	module, err := GoModule{Path: m.Path, Version: m.Version}.Source(ctx)
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(module, filepath.FromSlash(m.Folder), "*.yaml"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("%s@%s has no manifests in %s", m.Path, m.Version, path.Clean(m.Folder))
	}
	var all bytes.Buffer
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "---\n%s\n", bytes.TrimSpace(text))
	}
	return os.WriteFile(filepath.Join(dir, m.File), all.Bytes(), 0o644)
}
