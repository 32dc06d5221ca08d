package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels returns a copy of the labels of an object. It fails if a label is not text, such as 1.10 or yes without quotes, which no server
// accepts: GetLabels returns no label of such an object at all, and whoever adds one would drop the others. null is "", as for a server.
func Labels(obj *unstructured.Unstructured) (map[string]string, error) {
	labels := map[string]string{}
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "labels")
	if value == nil {
		return labels, nil
	}
	all, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("metadata.labels is a %T, not a mapping", value)
	}
	for key := range all {
		if err := checkText(all, key, "metadata.labels.", false); err != nil {
			return nil, err
		}
		labels[key], _ = all[key].(string)
	}
	return labels, nil
}
