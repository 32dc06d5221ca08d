package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

func TestSurveyFindsAbsentObjects(t *testing.T) {
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
	survey.Prepare(t.Context(), c.ns, refs)
	for range 2 {
		absent, err := survey.Absent(t.Context(), c.ns, refs)
		if got := fmt.Sprint(absent); err != nil || got != "[ConfigMap/gone Unknown/a ConfigMap/default/labelled]" {
			t.Errorf("absent are %s, %v", got, err)
		}
	}
}

// TestSurveyListsPermittedNamespaces uses a user with rights in one namespace. It lists a kind there, once, and reads no single
// object.
func TestSurveyListsPermittedNamespaces(t *testing.T) {
	c := newCluster(t)
	var refs []kube.Ref
	for n := range 5 {
		name := fmt.Sprint("map-", n)
		c.create("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: NS, name: " + name + ", labels: {by: us}}\n")
		refs = append(refs, kube.Ref{Version: "v1", Kind: "ConfigMap", Name: name})
	}
	c.create("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {namespace: NS, name: r}\nrules: [{apiGroups: [''], resources: [configmaps], verbs: [list]}]\n")
	c.create("apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {namespace: NS, name: r}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}\n" +
		"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: narrow}]\n")
	config, _ := c.Config()
	config.Impersonate.UserName = "narrow"
	var lists, others atomic.Int32
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/configmaps"):
				lists.Add(1)
			case strings.Contains(r.URL.Path, "/configmaps/"):
				others.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	narrow, err := kube.Connect(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // rights hold a moment after they were given
		lists.Store(0)
		others.Store(0)
		absent, err := narrow.NewSurvey("by=us").Absent(t.Context(), c.ns, refs)
		if err == nil && len(absent) == 0 && lists.Load() == 1 && others.Load() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("absent are %v, %v; %d lists and %d other requests", absent, err, lists.Load(), others.Load())
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSurveyAfterKindsAreDeleted: a cluster that no longer serves a kind has no objects of it.
func TestSurveyAfterKindsAreDeleted(t *testing.T) {
	api := &fakeAPI{}
	api.serve(thingsPath, thingsList)
	api.serve(thingsPath+"/things", `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"a"}}]}`)
	cluster := api.connect(t)
	thing := []kube.Ref{{Group: "example.org", Version: "v1", Kind: "Thing", Name: "a"}}
	if absent, err := cluster.NewSurvey("").Absent(t.Context(), "", thing); err != nil || len(absent) != 0 {
		t.Fatalf("before: %v, %v", absent, err)
	}
	api.drop(thingsPath)
	api.drop(thingsPath + "/things")
	for range 2 {
		if absent, err := cluster.NewSurvey("").Absent(t.Context(), "", thing); err != nil || len(absent) != 1 {
			t.Errorf("after: %v, %v", absent, err)
		}
	}
	api.serve(thingsPath, thingsList)
	api.serve(thingsPath+"/things", `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"a"}}]}`)
	if absent, err := cluster.NewSurvey("").Absent(t.Context(), "", thing); err != nil || len(absent) != 0 {
		t.Errorf("defined again: %v, %v", absent, err)
	}
}
