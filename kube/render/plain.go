package render

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/provider"
	kresource "sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
)

// readPlain reads a kustomization that only lists files, or other such kustomizations. It returns the objects that
// kustomize would return, and is faster: kustomize compares each object with each, which takes seconds for 2,000. It
// returns false for anything else and for every error; kustomize decides then.
func readPlain(dir string) ([]*unstructured.Unstructured, bool) {
	p := &plain{
		factory: provider.NewDefaultDepProvider().GetResourceFactory(),
		dirs:    map[string]bool{}, names: map[name]bool{},
	}
	return p.objs, p.readDir(dir) && len(p.objs) > 0
}

type plain struct {
	factory *kresource.Factory
	dirs    map[string]bool // that were entered
	names   map[name]bool   // of objs
	objs    []*unstructured.Unstructured
}

func (p *plain) readDir(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || p.dirs[dir] {
		return false
	}
	p.dirs[dir] = true
	_, k, err := readKustomization(dir)
	if err != nil {
		return false
	}
	if k.FixKustomization(); !onlyLists(k) {
		return false
	}
	// A root refuses paths outside it, as kustomize does.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	for _, entry := range k.Resources {
		info, err := os.Stat(filepath.Join(dir, entry))
		switch {
		case err != nil:
			return false
		case info.IsDir():
			if !p.readDir(filepath.Join(dir, entry)) {
				return false
			}
			continue
		}
		data, err := root.ReadFile(entry)
		if err != nil || !p.readFile(data) {
			return false
		}
	}
	return true
}

// onlyLists reports whether a kustomization does nothing but name resources.
func onlyLists(k *types.Kustomization) bool {
	return reflect.DeepEqual(*k, types.Kustomization{TypeMeta: k.TypeMeta, Resources: k.Resources}) && len(k.EnforceFields()) == 0 &&
		k.Kind != types.ComponentKind
}

// readFile reads the objects of a file, with kustomize's own parser so that every scalar means the same.
func (p *plain) readFile(data []byte) bool {
	// Notes to kustomize, such as local-config, and those that it leaves behind itself.
	for _, note := range []string{"config.kubernetes.io", "config.k8s.io"} {
		if bytes.Contains(data, []byte(note)) {
			return false
		}
	}
	resources, err := p.factory.SliceFromBytes(data)
	if err != nil {
		return false
	}
	for _, r := range resources {
		found, err := objectsOf(r)
		if err != nil {
			return false
		}
		for _, obj := range found {
			n := nameOf(obj)
			if p.names[n] || n.kind == types.KustomizationKind || n.kind == types.ComponentKind {
				return false
			}
			p.names[n] = true
		}
		p.objs = append(p.objs, found...)
	}
	return true
}

// name must be unique for each object of a kustomization.
type name struct{ group, kind, namespace, name string }

func nameOf(obj *unstructured.Unstructured) name {
	gvk, namespace := obj.GroupVersionKind(), obj.GetNamespace()
	if namespace == metav1.NamespaceDefault {
		namespace = ""
	}
	return name{gvk.Group, gvk.Kind, namespace, obj.GetName()}
}
