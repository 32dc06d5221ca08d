package patch

import "slices"

// serverFields are the fields of metadata that only the API server sets. Hooks write back whole objects that they have read. With
// these fields, the API server would refuse to create such an object, and would compare an update with an outdated state: since
// the hook gets the same object again, it would fail forever.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid",
}

// withoutServerFields drops these fields from an object or a merge patch. What stays is managedFields: [{}], which asks the API server
// to forget all managers.
func withoutServerFields(fields map[string]any) {
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range serverFields {
		if list, _ := metadata[name].([]any); len(list) == 1 {
			if one, ok := list[0].(map[string]any); ok && len(one) == 0 {
				continue
			}
		}
		delete(metadata, name)
	}
}

// withoutServerFieldsInSteps drops these fields from the values of a JSON patch that are whole objects or whole metadata. A step for only
// one of the fields is intended, such as a test of resourceVersion.
func withoutServerFieldsInSteps(patch any) {
	steps, _ := patch.([]any)
	for _, step := range steps {
		one, _ := step.(map[string]any)
		value, _ := one["value"].(map[string]any)
		if op, _ := one["op"].(string); !slices.Contains([]string{"add", "replace"}, op) {
			continue
		}
		switch one["path"] {
		case "":
			withoutServerFields(value)
		case "/metadata":
			withoutServerFields(map[string]any{"metadata": value})
		}
	}
}
