package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
)

// group is that of Cluster API. Kinds of control planes and infrastructures are in groups that end with it.
const group = "cluster.x-k8s.io"

// clusters reads Cluster objects in the version that the hub's API server prefers: v1beta1 or v1beta2 (C-25).
type clusters struct {
	reader client.Reader // cached
	direct client.Reader
	mapper meta.RESTMapper
}

func (c *clusters) kind() (schema.GroupVersionKind, error) {
	found, err := c.mapper.RESTMapping(schema.GroupKind{Group: group, Kind: "Cluster"})
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return found.GroupVersionKind, nil
}

// list returns the clusters of a namespace. Without Cluster API there are none.
func (c *clusters) list(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	kind, err := c.kind()
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := new(unstructured.UnstructuredList)
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	err = c.reader.List(ctx, list, client.InNamespace(namespace))
	// a cache has no order, and a condition shows the first problem
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list.Items, err
}

// get returns a cluster, or nil if there is none.
func (c *clusters) get(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	kind, err := c.kind()
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o := new(unstructured.Unstructured)
	o.SetGroupVersionKind(kind)
	if err := c.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return o, nil
}

// summary has the fields of a cluster that decisions depend on.
func summary(o *unstructured.Unstructured) chartplan.Cluster {
	paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused")
	_, annotated := o.GetAnnotations()[caaph.Paused]
	return chartplan.Cluster{
		APIVersion: o.GetAPIVersion(), Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(),
		Paused: paused || annotated, Deleting: !o.GetDeletionTimestamp().IsZero(),
	}
}

// waits reports whether a cluster states that its control plane is not initialized. One that states nothing does not wait
//
func waits(o *unstructured.Unstructured) bool {
	if ready, found, err := unstructured.NestedBool(o.Object, "status", "initialization", "controlPlaneInitialized"); found && err == nil {
		return !ready
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "ControlPlaneInitialized" {
			return c["status"] == "False"
		}
	}
	ready, found, err := unstructured.NestedBool(o.Object, "status", "controlPlaneReady")
	return found && err == nil && !ready
}

// referenced returns an object that a cluster refers to, such as its control plane, or nil if it refers to none.
func (c *clusters) referenced(ctx context.Context, cluster *unstructured.Unstructured, field string) (map[string]any, error) {
	reference, found, err := unstructured.NestedStringMap(cluster.Object, "spec", field)
	if !found || err != nil {
		return nil, err
	}
	kind := schema.FromAPIVersionAndKind(reference["apiVersion"], reference["kind"])
	if kind.Group == "" { // v1beta2 has only the group
		kind.Group = reference["apiGroup"]
	}
	if !strings.HasSuffix(kind.Group, "."+group) {
		return nil, fmt.Errorf("spec.%s of cluster %s refers to a kind outside of *.%s", field, cluster.GetName(), group)
	}
	if kind.Version == "" {
		mapping, err := c.mapper.RESTMapping(kind.GroupKind())
		if err != nil {
			return nil, err
		}
		kind = mapping.GroupVersionKind
	}
	o := new(unstructured.Unstructured)
	o.SetGroupVersionKind(kind)
	// a template sees objects of the cluster's namespace only
	err = c.direct.Get(ctx, client.ObjectKey{Namespace: cluster.GetNamespace(), Name: reference["name"]}, o)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("spec.%s of cluster %s: there is no %s %s", field, cluster.GetName(), kind.Kind, reference["name"])
	}
	return o.Object, err
}
