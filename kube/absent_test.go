package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

func TestASurveyFindsAbsentObjects(t *testing.T) {
	c := newCluster(t)
	c.create("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: NS, name: labelled, labels: {by: us}}\n")
	c.create("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: NS, name: bare}\n")
	objs, err := render.Decode(strings.NewReader(`apiVersion: v1
kind: ConfigMap
metadata: {name: labelled}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: bare}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: gone}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, namespace: mistaken}
---
apiVersion: example.org/v1
kind: Unknown
metadata: {name: a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: labelled, namespace: default}
`))
	if err != nil {
		t.Fatal(err)
	}
	var refs []kube.Ref
	for _, obj := range objs {
		refs = append(refs, kube.RefOf(obj))
	}
	survey := c.NewSurvey("by=us")
	for range 2 { // the second time without lists
		absent, err := survey.Absent(t.Context(), c.ns, refs)
		if got := fmt.Sprint(absent); err != nil || got != "[ConfigMap/gone Unknown/a ConfigMap/default/labelled]" {
			t.Errorf("absent are %s, %v", got, err)
		}
	}
}
