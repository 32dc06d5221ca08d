package references

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/kube/render"
)

// kustomization is a kustomization of the add-on.
type kustomization struct {
	file string // below work
	dir  string
	types.Kustomization
}

// render renders every kustomization that no other includes, and scans the output.
func (c *checker) render() error {
	c.consumed = make(map[string]bool)
	all := make(map[string]*kustomization) // by folder
	for _, name := range c.files {
		if slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name)) {
			c.consumed[name] = true
			if k := c.readKustomization(name); k != nil {
				all[k.dir] = k
			}
		}
	}
	included := make(map[string]bool)
	for _, k := range all {
		for _, entry := range append(slices.Clone(k.Resources), k.Components...) {
			included[path.Join(k.dir, entry)] = true
		}
	}
	for _, name := range c.files {
		k := all[path.Dir(name)]
		if k == nil || k.file != name || included[k.dir] || k.Kind == types.ComponentKind {
			continue
		}
		if err := c.renderOne(k, all); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) readKustomization(name string) *kustomization {
	k := &kustomization{file: name, dir: path.Dir(name)}
	data, err := os.ReadFile(filepath.Join(c.work, filepath.FromSlash(name)))
	if err == nil {
		err = k.Unmarshal(data)
	}
	if err != nil {
		c.list.Warnf(c.position(name, 0, 0), "", "cannot be read, so its files were read one by one: %v", err)
		return nil
	}
	k.FixKustomization()
	return k
}

func (c *checker) renderOne(k *kustomization, all map[string]*kustomization) error {
	family := c.family(k, all)
	for _, member := range family {
		if err := c.standIn(member); err != nil {
			return err
		}
	}
	objects, err := render.BuildIn(c.work, k.dir)
	if err != nil && c.completedByHook(family) {
		return nil // its files are read one by one
	}
	if err != nil {
		c.list.Warnf(c.position(k.file, 0, 0), "", "cannot be rendered before its hook runs, so its files were read one by one: %s",
			strings.ReplaceAll(err.Error(), c.work+string(filepath.Separator), ""))
		return nil
	}
	for _, member := range family {
		for _, name := range member.takes() {
			c.consumed[path.Join(member.dir, name)] = true
		}
	}
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("%s: %w", k.file, err)
		}
		c.scan(text, source{name: k.file, rendered: true})
	}
	return nil
}

// completedByHook reports whether a hook creates, moves or fills a file that the kustomizations name.
func (c *checker) completedByHook(family []*kustomization) bool {
	if c.hooks == nil {
		return false
	}
	named := make(map[string]bool)
	syntax.Walk(c.hooks.File, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok {
			text, _ := c.hooks.Text(w)
			named[path.Base(text)] = true
		}
		return true
	})
	incomplete := false
	for _, k := range family {
		missing := 0
		for _, name := range k.takes() {
			if _, err := os.Stat(filepath.Join(c.work, filepath.FromSlash(path.Join(k.dir, name)))); errors.Is(err, fs.ErrNotExist) {
				if missing++; !named[path.Base(name)] {
					return false
				}
			}
		}
		incomplete = incomplete || missing > 0 || len(k.takes()) == 0
	}
	return incomplete
}

// family returns a kustomization and everything that it includes.
func (c *checker) family(k *kustomization, all map[string]*kustomization) []*kustomization {
	family := []*kustomization{k}
	for i := 0; i < len(family); i++ {
		for _, entry := range append(slices.Clone(family[i].Resources), family[i].Components...) {
			if member := all[path.Join(family[i].dir, entry)]; member != nil && !slices.Contains(family, member) {
				family = append(family, member)
			}
		}
	}
	return family
}

// standIn creates an empty file in place of one that a hook creates for a generator. It becomes data of a ConfigMap or
// Secret, which runs nothing.
func (c *checker) standIn(k *kustomization) error {
	var wanted []string
	for i := range k.ConfigMapGenerator {
		wanted = append(append(wanted, k.ConfigMapGenerator[i].FileSources...), k.ConfigMapGenerator[i].EnvSources...)
	}
	for i := range k.SecretGenerator {
		wanted = append(append(wanted, k.SecretGenerator[i].FileSources...), k.SecretGenerator[i].EnvSources...)
	}
	for _, name := range wanted {
		if _, file, named := strings.Cut(name, "="); named {
			name = file
		}
		target := filepath.Join(c.work, filepath.FromSlash(k.dir), filepath.FromSlash(name))
		if !filepath.IsLocal(filepath.FromSlash(path.Join(k.dir, name))) {
			continue
		}
		if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(target, nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// takes lists the files whose objects a kustomization renders. The files of generators are data and are left out.
func (k *kustomization) takes() []string {
	names := append(slices.Clone(k.Resources), k.Components...)
	for _, p := range k.Patches {
		names = append(names, p.Path)
	}
	for _, p := range k.PatchesJson6902 { //nolint:staticcheck // kURL's add-ons have the old fields
		names = append(names, p.Path)
	}
	for _, p := range k.PatchesStrategicMerge { //nolint:staticcheck // as above
		names = append(names, string(p))
	}
	return names
}
