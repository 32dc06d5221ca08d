package module

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/catalog"
)

// manifestFile makes a folder an add-on of Sealift. Without it, addon.yaml is an ordinary file of the module.
const manifestFile = "Manifest"

func (m *Module) readRelations() error {
	if info, err := os.Stat(filepath.Join(m.Path, manifestFile)); err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // it is not an add-on
	}
	meta, err := catalog.ReadDir(os.DirFS(m.Path), ".", m.Name)
	m.Provides, m.Requires, m.After = meta.Provides, meta.Requires, meta.After
	return err
}

// Providers returns the modules that have a name, or provide a capability of that name. What no module provides is the
// Installer's to bring, such as kubernetes.
func (f *Found) Providers(name string) []*Module {
	var all []*Module
	for _, m := range f.Modules {
		if m.Name == name || slices.Contains(m.Provides, name) {
			all = append(all, m)
		}
	}
	return all
}

// relate moves modules behind those that they require or come after. Otherwise their order stays.
func (f *Found) relate() error {
	before := map[*Module][]*Module{}
	for _, m := range f.Modules {
		for _, name := range slices.Concat(m.Requires, m.After) {
			for _, earlier := range f.Providers(name) {
				if earlier != m {
					before[m] = append(before[m], earlier)
				}
			}
		}
	}
	placed := map[*Module]bool{}
	waits := func(m *Module) bool {
		return placed[m] || slices.ContainsFunc(before[m], func(earlier *Module) bool { return !placed[earlier] })
	}
	var sorted []*Module
	for len(sorted) < len(f.Modules) {
		i := slices.IndexFunc(f.Modules, func(m *Module) bool { return !waits(m) })
		if i < 0 {
			return f.circle()
		}
		placed[f.Modules[i]] = true
		sorted = append(sorted, f.Modules[i])
	}
	f.Modules = sorted
	return nil
}

// circle names the modules that wait for each other.
func (f *Found) circle() error {
	all := make([]catalog.Meta, len(f.Modules))
	for i, m := range f.Modules {
		all[i] = catalog.Meta{Name: m.Name, Provides: m.Provides, Requires: m.Requires, After: m.After, Declared: true}
	}
	text, err := catalog.Circle(all)
	if err != nil {
		return err
	}
	return fmt.Errorf("modules wait for each other in a circle: %s; remove one of these relations from its addon.yaml", text)
}
