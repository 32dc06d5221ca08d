package kube

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/kube/render"
)

// Ref names one object of a cluster. Namespace is empty for a cluster-scoped one.
type Ref struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// RefOf reads the name of an object off the object.
func RefOf(obj *unstructured.Unstructured) Ref {
	gvk := obj.GroupVersionKind()
	return Ref{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// String returns Kind/namespace/name, or Kind/name when there is no namespace.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + "/" + r.Name
	}
	return r.Kind + "/" + r.Namespace + "/" + r.Name
}

func (r Ref) groupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

func (r Ref) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// identity is the Ref without its version: two versions of one kind are the same object.
func (r Ref) identity() Ref {
	r.Version = ""
	return r
}

// Placed tells the objects of a manifest apart, as Apply does: without the version, and in "default" if no namespace is named. For a kind
// without namespaces, that is as good a name.
func (r Ref) Placed() Ref {
	r.Version, r.Namespace = "", cmp.Or(r.Namespace, metav1.NamespaceDefault)
	return r
}

// Live are the names that an object of a manifest may have in the cluster, without its version: the manifest may leave "default" out, or
// name a namespace for a kind that has none.
func (r Ref) Live() []Ref {
	if r.Namespace == "" {
		return []Ref{r.identity(), r.Placed()}
	}
	bare := r.identity()
	bare.Namespace = ""
	return []Ref{r.identity(), bare}
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// checkObjects refuses objects that no server could accept, all of them at once, before anything is changed.
func checkObjects(objs []*unstructured.Unstructured) error {
	var errs []error
	seen := make(map[Ref]int, len(objs))
	for i, obj := range objs {
		ref := RefOf(obj)
		switch {
		case ref.Kind == "" || ref.Version == "":
			errs = append(errs, fmt.Errorf("object %d (%q): apiVersion and kind are required", i+1, ref.Name))
			continue
		case obj.IsList():
			errs = append(errs, fmt.Errorf("object %d: a %s must be split first, as render.Decode does", i+1, ref.Kind))
			continue
		case ref.Name == "":
			errs = append(errs, fmt.Errorf("object %d (%s): metadata.name is required; generateName cannot be applied", i+1, ref.Kind))
			continue
		}
		if first, twice := seen[ref.Placed()]; twice {
			errs = append(errs, fmt.Errorf("%s is listed twice, as object %d and object %d", ref, first, i+1))
			continue
		}
		seen[ref.Placed()] = i + 1
	}
	return errors.Join(errs...)
}

// desired returns what to send for obj: without the fields that only a server writes, with the given labels added, and in the
// given namespace. obj itself is not changed.
func desired(obj *unstructured.Unstructured, namespace string, labels map[string]string) (*unstructured.Unstructured, error) {
	content := maps.Clone(obj.Object)
	delete(content, "status")
	meta, ok := content["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata is not a mapping")
	}
	meta = maps.Clone(meta)
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		delete(meta, field)
	}
	content["metadata"] = meta
	out := &unstructured.Unstructured{Object: content}
	if namespace == "" {
		delete(meta, "namespace")
	} else {
		meta["namespace"] = namespace
	}
	if len(labels) > 0 {
		merged, err := render.Labels(obj)
		if err != nil {
			return nil, err
		}
		maps.Copy(merged, labels)
		out.SetLabels(merged)
	}
	if obj.GetKind() == "Secret" && obj.GroupVersionKind().Group == "" {
		return out, encodeStringData(content)
	}
	return out, nil
}

// encodeStringData moves a Secret's stringData into data. The server never returns stringData, so a key removed from it would
// stay in the Secret forever.
func encodeStringData(content map[string]any) error {
	plain, ok := content["stringData"].(map[string]any)
	if !ok {
		return nil
	}
	data := map[string]any{}
	if existing, ok := content["data"].(map[string]any); ok {
		data = maps.Clone(existing)
	}
	for key, value := range plain {
		text, ok := value.(string)
		if !ok && value != nil { // the server reads null as empty
			return fmt.Errorf("stringData.%s is a %T, not a string: quote it", key, value)
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(content, "stringData")
	content["data"] = data
	return nil
}

// groupKindString writes a kind as ApplySet annotations do: Kind, or Kind.group.
func groupKindString(gk schema.GroupKind) string {
	if gk.Group == "" {
		return gk.Kind
	}
	return gk.Kind + "." + gk.Group
}

func parseGroupKind(s string) schema.GroupKind {
	kind, group, _ := strings.Cut(s, ".")
	return schema.GroupKind{Group: group, Kind: kind}
}

// text reads an optional string.
func text(content map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(content, path...)
	return s
}
