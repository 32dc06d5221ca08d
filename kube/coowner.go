package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// coOwner names another manager that applies the same object, and so would miss it. One that adds fields to the engine's object, such as a
// controller that fills in a CA, would not: without the engine's fields there is nothing to add to.
func (e *Engine) coOwner(meta *metav1.PartialObjectMetadata) string {
	own, err := Owned(meta, e.manager)
	for _, f := range meta.ManagedFields {
		if f.Operation != metav1.ManagedFieldsOperationApply || f.Subresource != "" || f.Manager == e.manager || e.takeOver[f.Manager] {
			continue
		}
		theirs, unread := Owned(meta, f.Manager)
		if err != nil || unread != nil || !definesContent(own) || sharesField(own, theirs) {
			return f.Manager
		}
	}
	return ""
}

// definesContent reports whether a manager has fields of an object beside its metadata.
func definesContent(fields *fieldpath.Set) (content bool) {
	fields.Iterate(func(p fieldpath.Path) {
		content = content || p[0].FieldName == nil || *p[0].FieldName != "metadata"
	})
	return content
}

// sharesField reports whether two managers apply a field with the same value. The keys of a list's elements do not count: whoever applies
// another field of the element applies them.
func sharesField(a, b *fieldpath.Set) (shared bool) {
	a.Intersection(b).Leaves().Iterate(func(p fieldpath.Path) {
		shared = shared || !isElement(p)
	})
	return shared
}

// isElement reports whether a path leads to an element of a list with keys, or to one of its keys.
func isElement(p fieldpath.Path) bool {
	last := p[len(p)-1]
	if last.Key != nil || last.Index != nil {
		return true
	}
	if last.FieldName == nil || len(p) < 2 || p[len(p)-2].Key == nil {
		return false
	}
	for _, key := range *p[len(p)-2].Key {
		if key.Name == *last.FieldName {
			return true
		}
	}
	return false
}
