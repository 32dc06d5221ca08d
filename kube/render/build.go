package render

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/provider"
	kresource "sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// building guards the one OpenAPI schema that kustomize keeps for the whole process. Concurrent builds may read each other's.
var building sync.Mutex

// Build renders a kustomization directory as `kubectl kustomize` does, in this process. Everything it names must be on
// disk: a URL, a git repository, a Helm chart or a plugin is refused, and so is a file outside the kustomization's own
// directory unless it belongs to another kustomization.
func Build(dir string) ([]*unstructured.Unstructured, error) {
	return build(dir, localCheck{seen: map[string]bool{}})
}

// BuildIn is Build for a kustomization of somebody else, in the folder dir of root. It also refuses kustomizations outside root.
func BuildIn(root, dir string) ([]*unstructured.Unstructured, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("build kustomization: %w", err)
	}
	return build(filepath.Join(root, filepath.FromSlash(dir)), localCheck{root: root, seen: map[string]bool{}})
}

func build(dir string, check localCheck) ([]*unstructured.Unstructured, error) {
	if err := check.folder(dir); err != nil {
		return nil, fmt.Errorf("build kustomization: %w", err)
	}
	if objs, ok := readPlain(dir); ok {
		return objs, nil
	}
	return kustomize(dir)
}

// kustomize builds a kustomization with kustomize itself, whatever its content.
func kustomize(dir string) ([]*unstructured.Unstructured, error) {
	building.Lock()
	defer building.Unlock()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("build kustomization %s: %w", dir, err)
	}
	list := resources.Resources()
	resources.Clear()
	objs := make([]*unstructured.Unstructured, 0, len(list))
	for i, r := range list {
		found, err := objectsOf(r)
		if err != nil {
			return nil, fmt.Errorf("build kustomization %s: %s: %w", dir, r.CurId(), err)
		}
		objs = append(objs, found...)
		list[i] = nil // a tree of nodes takes several times the memory of its object
	}
	return objs, nil
}

func objectsOf(r *kresource.Resource) ([]*unstructured.Unstructured, error) {
	data, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return strict.object(data)
}

// localCheck walks a kustomization and those it includes. kustomize itself takes any name that is not a file for a git
// repository, which hangs behind an air gap, and is fetched elsewhere.
type localCheck struct {
	root string // that no kustomization may be outside of, without symbolic links; "" for none
	seen map[string]bool
}

func (c localCheck) folder(dir string) error {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs) // kustomize takes paths from there
	}
	if err != nil {
		return err
	}
	if c.seen[abs] {
		return nil
	}
	c.seen[abs] = true
	if below, err := filepath.Rel(c.root, abs); c.root != "" && (err != nil || !filepath.IsLocal(below)) {
		return fmt.Errorf("%s is outside of what its kustomization came with, and is not read", dir)
	}
	file, k, err := readKustomization(abs)
	if err != nil {
		return err
	}
	if len(k.HelmCharts) > 0 || len(k.HelmChartInflationGenerator) > 0 {
		return fmt.Errorf("%s: Helm charts are not rendered here: render the chart when the add-on is made", file)
	}
	var errs []error
	for _, entry := range included(k) {
		path := filepath.Join(abs, entry)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) || strings.Contains(entry, "://"):
			errs = append(errs, fmt.Errorf("%s: %q is not on disk, and nothing is fetched while building: put it beside the kustomization", file, entry))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %q: %w", file, entry, err))
		case info.IsDir():
			errs = append(errs, c.folder(path))
		}
	}
	return errors.Join(errs...)
}

// readKustomization finds and reads the one kustomization file of a directory.
func readKustomization(dir string) (file string, k *types.Kustomization, err error) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		data, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", nil, err
		case k != nil:
			return "", nil, fmt.Errorf("%s has both %s and %s: remove one of them", dir, filepath.Base(file), name)
		}
		file = filepath.Join(dir, name)
		k = &types.Kustomization{}
		if err := k.Unmarshal(data); err != nil {
			return "", nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if k != nil {
		return file, k, nil
	}
	if _, err := os.Stat(dir); err != nil {
		return "", nil, err
	}
	return "", nil, fmt.Errorf("%s has no kustomization.yaml", dir)
}

// included lists every path that a kustomization reads.
func included(k *types.Kustomization) []string {
	k.FixKustomization() // moves bases to resources, env to envs
	entries := make([]string, 0, len(k.Resources)+len(k.Components))
	add := func(paths ...string) {
		for _, p := range paths {
			if p != "" {
				entries = append(entries, p)
			}
		}
	}
	addUnlessText := func(path string) {
		if !isText(path) {
			add(path)
		}
	}
	add(k.Resources...)
	add(k.Components...)
	add(k.Crds...)
	add(k.Configurations...)
	for _, p := range slices.Concat(k.Generators, k.Transformers, k.Validators) {
		addUnlessText(p)
	}
	add(k.OpenAPI["path"])
	for _, p := range k.Patches {
		add(p.Path)
	}
	for _, p := range k.PatchesJson6902 { //nolint:staticcheck // deprecated, and what add-ons have
		add(p.Path)
	}
	for _, p := range k.PatchesStrategicMerge { //nolint:staticcheck // deprecated, and what add-ons have
		addUnlessText(string(p))
	}
	for _, r := range k.Replacements {
		add(r.Path)
	}
	sources := make([]types.KvPairSources, 0, len(k.ConfigMapGenerator)+len(k.SecretGenerator))
	for _, g := range k.ConfigMapGenerator {
		sources = append(sources, g.KvPairSources)
	}
	for _, g := range k.SecretGenerator {
		sources = append(sources, g.KvPairSources)
	}
	for _, s := range sources {
		for _, f := range s.FileSources {
			if _, path, named := strings.Cut(f, "="); named {
				f = path
			}
			add(f)
		}
		add(s.EnvSources...)
	}
	return entries
}

// isText reports whether kustomize reads an entry itself, as objects, where it may also be a path. It takes the others for paths,
// such as "a: b/../..".
func isText(entry string) bool {
	if !strings.Contains(entry, "\n") && !strings.Contains(entry, ": ") {
		return false
	}
	_, err := provider.NewDefaultDepProvider().GetResourceFactory().SliceFromBytes([]byte(entry))
	return err == nil
}

// Included lists the files and folders that the text of a kustomization names.
func Included(kustomization []byte) ([]string, error) {
	k := &types.Kustomization{}
	if err := k.Unmarshal(kustomization); err != nil {
		return nil, err
	}
	return included(k), nil
}
