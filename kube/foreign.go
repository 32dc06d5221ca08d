package kube

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ForeignError reports that an object was left alone because it existed and is in no set.
type ForeignError struct {
	// Holder names who made the object, as far as it can be seen.
	Holder string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("it exists and belongs to %s: remove it there first", e.Holder)
}

// What Helm writes to the objects of a release. Charts that were rendered elsewhere have the label too, but not the annotations.
const (
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
)

// makerOf names who made an object that is in no set: the release of Helm, or its field managers.
func makerOf(meta *metav1.PartialObjectMetadata) string {
	if release := meta.Annotations[helmRelease]; release != "" {
		return fmt.Sprintf("the release %s/%s of Helm", meta.Annotations[helmNamespace], release)
	}
	if owner := metav1.GetControllerOfNoCopy(meta); owner != nil {
		return "its controller " + owner.Kind + "/" + owner.Name
	}
	var managers []string
	for _, f := range meta.ManagedFields {
		if f.Subresource == "" && !slices.Contains(managers, f.Manager) {
			managers = append(managers, f.Manager)
		}
	}
	if len(managers) == 0 {
		return "an unknown field manager"
	}
	return "the field manager " + strings.Join(managers, ", ")
}
