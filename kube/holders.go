package kube

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Holders names the sets of the engine's manager that hold any of objs, by object without its version. It asks once for each
// kind, and once for the sets.
func (e *Engine) Holders(ctx context.Context, objs []*unstructured.Unstructured) (map[Ref]Set, error) {
	parents, err := e.metaFor(secrets, metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: labelSetID})
	if err != nil {
		return nil, fmt.Errorf("find the sets of the cluster: %w", err)
	}
	sets := map[string]Set{}
	for i := range parents.Items {
		if set := (Set{Name: parents.Items[i].Name, Namespace: parents.Items[i].Namespace}); e.madeHere(&parents.Items[i]) {
			sets[set.ID()] = set
		}
	}
	wanted := map[Ref]Ref{} // by the place of the live object
	kinds := map[schema.GroupKind]Ref{}
	for _, obj := range objs {
		ref := RefOf(obj)
		kinds[ref.groupKind()] = ref
		for _, live := range ref.Live() {
			wanted[live] = ref.identity()
		}
	}
	holders := map[Ref]Set{}
	for _, kind := range kinds {
		res, err := e.kinds.find(ctx, kind.gvk())
		if _, ok := errors.AsType[*noKindError](err); ok {
			continue // objects of an unserved kind have no holder
		}
		var found []*member
		if err == nil {
			found, err = e.listResource(ctx, kind, res, metav1.NamespaceAll, metav1.ListOptions{LabelSelector: labelPartOf}, nil)
		}
		if err != nil {
			return nil, fmt.Errorf("find who holds the %s objects: %w", groupKindString(kind.groupKind()), err)
		}
		for _, m := range found {
			set, known := sets[m.meta.Labels[labelPartOf]]
			if ref, ok := wanted[m.ref.identity()]; known && ok {
				holders[ref] = set
			}
		}
	}
	return holders, nil
}
