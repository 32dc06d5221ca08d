package agent

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/fleet/ocm"
)

// TestCompleteStaysWhileUnread has a work with a manifest that is complete, and another one. While one of them cannot be read, as with a
// rule that has a typo, the record stays: without it, what is complete would be applied again.
func TestCompleteStaysWhileUnread(t *testing.T) {
	of := func(name string, rules ...rule) manifest {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job"}}
		object.SetName(name)
		object.SetNamespace("default")
		return manifest{object: object, id: ocm.ResourceIdentifier{Group: "batch", Resource: "jobs", Namespace: "default", Name: name}, rules: rules}
	}
	complete := rule{condition: ocm.Complete}
	once := of("once", complete)
	once.complete = true
	unread := of("once")
	unread.err = errors.New("conditionRules")
	another := of("another")
	another.err = errors.New("no such kind")
	was := places{Complete: []ocm.ResourceIdentifier{once.id}}
	for name, row := range map[string]struct {
		manifests []manifest
		want      []ocm.ResourceIdentifier
	}{
		"all are read":       {[]manifest{once, of("another")}, was.Complete},
		"it is not read":     {[]manifest{unread, of("another")}, was.Complete},
		"the other is not":   {[]manifest{once, another}, was.Complete},
		"none is":            {[]manifest{unread, another}, was.Complete},
		"it has no rule":     {[]manifest{of("once"), of("another")}, nil},
		"it left the work":   {[]manifest{of("another")}, nil},
		"it runs once again": {[]manifest{of("once", complete)}, nil},
		"nothing is there":   {nil, nil},
	} {
		now := placesOf(&ocm.ManifestWork{}, was, row.manifests, strategiesOf(row.manifests))
		if !slices.Equal(now.Complete, row.want) || !slices.Equal(now.with(was).Complete, row.want) {
			t.Errorf("%s: complete are %v", name, now.Complete)
		}
	}
}
