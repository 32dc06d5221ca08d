package values

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmv1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1" //nolint:staticcheck // templates in use have its names
	kubeadmv1beta2 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // as above
	clusterv1beta2 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// anyObject has the Go names that every object has.
type anyObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              map[string]any `json:"spec,omitempty"`
	Status            map[string]any `json:"status,omitempty"`
}

// typesOf returns the Go types of a kind. Names of the older version work for objects of the newer one.
func typesOf(kind string) []reflect.Type {
	switch kind {
	case "Cluster":
		return []reflect.Type{reflect.TypeFor[clusterv1beta2.Cluster](), reflect.TypeFor[clusterv1beta1.Cluster]()}
	case "KubeadmControlPlane":
		return []reflect.Type{reflect.TypeFor[kubeadmv1beta2.KubeadmControlPlane](), reflect.TypeFor[kubeadmv1beta1.KubeadmControlPlane]()}
	}
	return []reflect.Type{reflect.TypeFor[anyObject]()}
}

// goNames knows the Go types of the objects that a template sees, by the identity of each map.
type goNames map[uintptr][]reflect.Type

// learn remembers the Go types of an object and of everything in it.
func (names goNames) learn(object map[string]any) {
	kind, _ := object["kind"].(string)
	for _, t := range typesOf(kind) {
		names.add(object, t)
	}
}

func (names goNames) add(value any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := value.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for _, item := range v {
				names.add(item, t.Elem())
			}
		}
	case map[string]any:
		switch t.Kind() {
		case reflect.Map:
			for _, item := range v {
				names.add(item, t.Elem())
			}
		case reflect.Struct:
			id := reflect.ValueOf(v).Pointer()
			names[id] = append(names[id], t)
			names.members(v, t)
		}
	}
}

func (names goNames) members(object map[string]any, t reflect.Type) {
	for f := range t.Fields() {
		key, inline := jsonName(f)
		if inline {
			names.members(object, indirect(f.Type))
		} else if item, found := object[key]; found && key != "" {
			names.add(item, f.Type)
		}
	}
}

// find returns the value of a Go name in a map, or nil.
func (names goNames) find(object reflect.Value, name string) any {
	m, ok := reflect.TypeAssert[map[string]any](object)
	if !ok {
		return nil
	}
	for _, t := range names[object.Pointer()] {
		if value, found := findIn(m, t, name); found {
			return value
		}
	}
	return nil
}

// findIn looks a Go name up in a struct type. Fields of embedded structs count as in Go.
func findIn(object map[string]any, t reflect.Type, name string) (any, bool) {
	for f := range t.Fields() {
		key, inline := jsonName(f)
		switch {
		case f.Name != name:
		case inline:
			return object, true
		case key != "":
			value, found := object[key]
			return value, found
		}
	}
	for f := range t.Fields() {
		if !f.Anonymous || indirect(f.Type).Kind() != reflect.Struct {
			continue
		}
		inner := object
		if key, inline := jsonName(f); !inline {
			inner, _ = object[key].(map[string]any)
		}
		if value, found := findIn(inner, indirect(f.Type), name); found {
			return value, true
		}
	}
	return nil, false
}

// jsonName returns the JSON key of a field; inlined fields return ok without a key.
func jsonName(f reflect.StructField) (key string, inline bool) {
	if !f.IsExported() {
		return "", false
	}
	key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if key == "-" {
		return "", false
	}
	inline = f.Anonymous && (key == "" || strings.Contains(options, "inline"))
	if key == "" && !inline {
		key = f.Name
	}
	return key, inline
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
