package kube

import (
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// held reports whether applying want to live changes nothing: the engine owns exactly the fields of want, and each has its
// value. Anyone who edits such a field takes it from the engine or changes its value, and both are detected. If equality cannot
// be shown, held returns false, and the server is asked.
func held(want, live *unstructured.Unstructured, manager string, takeOver map[string]bool) bool {
	if live.GetDeletionTimestamp() != nil || want.GetKind() != live.GetKind() || want.GetAPIVersion() != live.GetAPIVersion() {
		return false
	}
	fields := ownedFields(live, manager, takeOver)
	if fields == nil {
		return false
	}
	// What names an object is in no manager's fields.
	content := without(want.Object, "apiVersion", "kind")
	if meta, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = without(meta, "name", "namespace")
	}
	return holdsMap(fields, content, live.Object)
}

// ownedFields returns the fields of the engine's manager, or nil when it has none, has them in another version of the kind, or has
// others to take over first.
func ownedFields(live *unstructured.Unstructured, manager string, takeOver map[string]bool) map[string]any {
	entries, _, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", "managedFields")
	list, _ := entries.([]any)
	var own map[string]any
	for _, item := range list {
		entry, ok := item.(map[string]any)
		if !ok || entry["subresource"] != nil {
			continue
		}
		name, _ := entry["manager"].(string)
		switch {
		case takeOver[name]:
			return nil
		case name == manager && entry["operation"] == string(metav1.ManagedFieldsOperationApply):
			if own != nil || entry["apiVersion"] != live.GetAPIVersion() {
				return nil
			}
			own, _ = entry["fieldsV1"].(map[string]any)
		}
	}
	return own
}

func without(content map[string]any, keys ...string) map[string]any {
	out := make(map[string]any, len(content))
	maps.Copy(out, content)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

// self is the key in a set of fields that marks the object or element around them as owned, too.
const self = "."

// holds compares one value. A field without fields below it is owned as a whole, whatever it contains.
func holds(fields map[string]any, want, live any) bool {
	if len(fields) == 0 {
		return want != nil && reflect.DeepEqual(want, live)
	}
	switch want := want.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		return ok && holdsMap(fields, want, live)
	case []any:
		live, ok := live.([]any)
		return ok && holdsList(fields, want, live)
	}
	return false
}

func holdsMap(fields, want, live map[string]any) bool {
	if countFields(fields) != len(want) {
		return false
	}
	for key, value := range want {
		below, owned := fields["f:"+key].(map[string]any)
		if !owned || !holds(below, value, live[key]) {
			return false
		}
	}
	return true
}

// holdsList compares lists whose elements are owned one by one: by value, or by the keys that identify them. Others may have
// their own elements in between.
func holdsList(fields map[string]any, want, live []any) bool {
	if countFields(fields) != len(want) {
		return false
	}
	places := make([]int, len(want)) // of each element in live, counted from 1
	for name, value := range fields {
		if name == self {
			continue
		}
		below, ok := value.(map[string]any)
		if !ok {
			return false
		}
		w, l := findElement(name, want, true), findElement(name, live, false)
		if w < 0 || l < 0 || places[w] != 0 || !holds(below, want[w], live[l]) {
			return false
		}
		places[w] = l + 1
	}
	for i := 1; i < len(places); i++ {
		if places[i] <= places[i-1] {
			return false // in another order, which may be the only change
		}
	}
	return true
}

// findElement returns the index of the one element that a name such as v:"a" or k:{"name":"a"} stands for, or -1. In written
// manifests, keys with defaults may be missing.
func findElement(name string, list []any, written bool) int {
	kind, text, _ := strings.Cut(name, ":")
	var value any
	if utiljson.Unmarshal([]byte(text), &value) != nil {
		return -1
	}
	keys, _ := value.(map[string]any)
	if kind != "v" && (kind != "k" || len(keys) == 0) {
		return -1
	}
	found := -1
	for i, element := range list {
		if kind == "v" && !reflect.DeepEqual(element, value) || kind == "k" && !hasKeys(element, keys, written) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

func hasKeys(element any, keys map[string]any, written bool) bool {
	content, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range keys {
		if got, there := content[key]; there && !reflect.DeepEqual(got, value) || !there && !written {
			return false
		}
	}
	return true
}

func countFields(fields map[string]any) int {
	if _, ok := fields[self]; ok {
		return len(fields) - 1
	}
	return len(fields)
}
