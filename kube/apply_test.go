package kube_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
)

func configMapOf(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: NS}\ndata: {key: '" + value + "'}"
}

const webDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NS}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.com/web:1}]}`

const migrateJob = `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: NS}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: example.com/migrate:1}]}`

func TestApplyReportsActions(t *testing.T) {
	c := newCluster(t)
	steps := []struct {
		name string
		docs []string
		want []string
	}{
		{"objects that are missing are created", []string{configMapOf("a", "1"), webDeployment}, []string{"ConfigMap/a created", "Deployment/web created"}},
		{"the same again changes nothing", []string{configMapOf("a", "1"), webDeployment}, []string{"ConfigMap/a unchanged", "Deployment/web unchanged"}},
		{"what differs is configured", []string{configMapOf("a", "2"), webDeployment}, []string{"ConfigMap/a configured", "Deployment/web unchanged"}},
		{"what left is pruned", []string{webDeployment}, []string{"Deployment/web unchanged", "ConfigMap/a pruned"}},
		{"what was pruned comes back", []string{webDeployment, configMapOf("a", "2")}, []string{"Deployment/web unchanged", "ConfigMap/a created"}},
	}
	for _, step := range steps {
		result := c.apply(kube.ApplyOptions{}, step.docs...)
		if diff := cmp.Diff(step.want, actions(result)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestApplyUnchangedSetWritesNothing(t *testing.T) {
	c := newCluster(t)
	docs := []string{configMapOf("a", "1"), "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NS}"}
	c.apply(kube.ApplyOptions{}, docs...)
	version := func() string {
		parent, err := c.resource("v1/secrets", kube.DefaultNamespace).Get(t.Context(), c.set.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return parent.GetResourceVersion() + " " + c.get("v1/configmaps", "a").GetResourceVersion()
	}
	before := version()
	c.apply(kube.ApplyOptions{}, docs...)
	if after := version(); after != before {
		t.Errorf("resource versions went from %s to %s", before, after)
	}
}

func TestApplyIgnoresChangingStatus(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, webDeployment)
	c.update("apps/v1/deployments", "web", "kube-controller-manager", setField(int64(1), "status", "replicas"), "status")
	if got := actions(c.apply(kube.ApplyOptions{}, webDeployment)); got[0] != "Deployment/web unchanged" {
		t.Error(got)
	}
}

func TestApplyRecordsSetAsKEP3659Says(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"), webDeployment)
	parent, err := c.resource("v1/secrets", kube.DefaultNamespace).Get(t.Context(), c.set.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"applyset.kubernetes.io/tooling":               "sealift/v1",
		"applyset.kubernetes.io/contains-group-kinds":  "ConfigMap,Deployment.apps",
		"applyset.kubernetes.io/additional-namespaces": c.ns,
	}
	if diff := cmp.Diff(want, parent.GetAnnotations()); diff != "" {
		t.Error(diff)
	}
	if got := parent.GetLabels()["applyset.kubernetes.io/id"]; got != c.set.ID() {
		t.Errorf("id is %q, want %q", got, c.set.ID())
	}
	if got := c.get("v1/configmaps", "a").GetLabels()["applyset.kubernetes.io/part-of"]; got != c.set.ID() {
		t.Errorf("the member is part of %q", got)
	}
}

const widgetDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.NS.example.com}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`

func TestApplyHandlesKindsNamespacesAndObjectsTogether(t *testing.T) {
	c := newCluster(t)
	docs := []string{ // deliberately in the wrong order
		"apiVersion: NS.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: NS-new}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NS-new}",
		widgetDefinition,
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-new}",
	}
	result := c.apply(kube.ApplyOptions{}, docs...)
	if n := result.Count(kube.Created); n != len(docs) {
		t.Fatalf("created %d of %d: %v", n, len(docs), actions(result))
	}
	if got := c.apply(kube.ApplyOptions{}, docs...).Summary(); got != "4 unchanged" {
		t.Errorf("second apply: %s", got)
	}
	// The definition stays, for its objects would go with it.
	got := actions(c.apply(kube.ApplyOptions{}, docs[1]))
	want := []string{"ConfigMap/a unchanged", "Widget/w pruned", "CustomResourceDefinition/widgets." + c.ns + ".example.com kept", "Namespace/" + c.ns + "-new kept"}
	sortTail := func(s []string) map[string]bool {
		m := map[string]bool{}
		for _, line := range s {
			m[line] = true
		}
		return m
	}
	if diff := cmp.Diff(sortTail(want), sortTail(got)); diff != "" {
		t.Error(diff)
	}
}

func TestApplyNamesFieldAndManagerOfConflict(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, webDeployment)
	c.update("apps/v1/deployments", "web", "autoscaler", setField(int64(5), "spec", "replicas"))
	result, err := c.Apply(t.Context(), c.set, c.objects(webDeployment, configMapOf("a", "1")), kube.ApplyOptions{})
	var conflict *kube.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v is not a conflict", err)
	}
	if diff := cmp.Diff([]kube.Conflict{{Field: ".spec.replicas", Manager: "autoscaler"}}, conflict.Conflicts); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"Deployment/" + c.ns + "/web", ".spec.replicas", `"autoscaler"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %s", err, want)
		}
	}
	if diff := cmp.Diff([]string{"Deployment/web failed", "ConfigMap/a created"}, actions(result)); diff != "" {
		t.Errorf("the others are applied all the same (-want +got):\n%s", diff)
	}
	if got := actions(c.apply(kube.ApplyOptions{Force: true}, webDeployment))[0]; got != "Deployment/web configured" {
		t.Errorf("forced: %s", got)
	}
}

func TestApplyTakesOverFieldsOfKubectlEdit(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"))
	c.update("v1/configmaps", "a", "kubectl-edit", func(content map[string]any) {
		content["data"] = map[string]any{"key": "edited", "added": "by hand"}
	})
	if got := actions(c.apply(kube.ApplyOptions{}, configMapOf("a", "1")))[0]; got != "ConfigMap/a configured" {
		t.Error(got)
	}
	data, _, _ := unstructured.NestedStringMap(c.get("v1/configmaps", "a").Object, "data")
	if diff := cmp.Diff(map[string]string{"key": "1"}, data); diff != "" {
		t.Error(diff)
	}
}

func TestApplyTakesOverClientSideApply(t *testing.T) {
	c := newCluster(t)
	obj := c.objects(configMapOf("a", "old"))[0]
	obj.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	if _, err := c.resource("v1/configmaps", c.ns).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
		t.Fatal(err)
	}
	c.apply(kube.ApplyOptions{}, configMapOf("a", "new"))
	live := c.get("v1/configmaps", "a")
	if value, _, _ := unstructured.NestedString(live.Object, "data", "key"); value != "new" {
		t.Errorf("value is %q", value)
	}
	if _, left := live.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"]; left {
		t.Error("the annotation of client-side apply was left, and is wrong from now on")
	}
}

func TestApplyKeepsFieldsOfOthers(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"))
	c.update("v1/configmaps", "a", "controller", setField("theirs", "data", "more"))
	c.apply(kube.ApplyOptions{}, configMapOf("a", "2"))
	data, _, _ := unstructured.NestedStringMap(c.get("v1/configmaps", "a").Object, "data")
	if diff := cmp.Diff(map[string]string{"key": "2", "more": "theirs"}, data); diff != "" {
		t.Error(diff)
	}
}

func TestApplyLeavesObjectsOfAnotherSetAlone(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"))
	other := kube.Set{Name: c.set.Name + "-other"}
	result, err := c.Apply(t.Context(), other, c.objects(configMapOf("a", "2"), configMapOf("b", "1")), kube.ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "belongs to set "+kube.DefaultNamespace+"/"+c.set.Name+":") {
		t.Errorf("error %v does not name the set", err)
	}
	if diff := cmp.Diff([]string{"ConfigMap/a failed", "ConfigMap/b created"}, actions(result)); diff != "" {
		t.Error(diff)
	}
	if value, _, _ := unstructured.NestedString(c.get("v1/configmaps", "a").Object, "data", "key"); value != "1" {
		t.Errorf("value is %q", value)
	}
}

func TestSetsMayShareNamespace(t *testing.T) {
	c := newCluster(t)
	namespace := func(label string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-shared, labels: {" + label + ": 'yes'}}"
	}
	second := kube.Set{Name: c.set.Name + "-second"}
	applySecond := func(docs ...string) kube.Entry {
		result, err := c.Apply(t.Context(), second, c.objects(docs...), kube.ApplyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return result.Entries[len(result.Entries)-1]
	}
	c.apply(kube.ApplyOptions{}, namespace("first"))
	if got := applySecond(namespace("second")); got.Action != kube.Configured || got.Message != "shared with set "+kube.DefaultNamespace+"/"+c.set.Name {
		t.Errorf("%+v", got)
	}
	if got := c.apply(kube.ApplyOptions{}, namespace("first")); got.Summary() != "1 unchanged" {
		t.Errorf("the first set again: %v", actions(got))
	}
	if got := applySecond(namespace("second")); got.Action != kube.Unchanged {
		t.Errorf("the second set again: %+v", got)
	}
	result := c.apply(kube.ApplyOptions{PruneProtected: true}, configMapOf("a", "1"))
	if got := result.Entries[1]; got.Action != kube.Kept {
		t.Errorf("when the first set leaves, the namespace stays for the second: %+v", got)
	}
}

func TestFailedApplyReportsAllFailuresAndPrunesNothing(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("old", "1"))
	bad := "apiVersion: v1\nkind: Service\nmetadata: {name: bad, namespace: NS}\nspec: {ports: [{port: 99999}]}"
	worse := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: worse, namespace: NS-nowhere}"
	result, err := c.Apply(t.Context(), c.set, c.objects(bad, configMapOf("good", "1"), worse), kube.ApplyOptions{})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"2 of 3 objects failed", "Service/" + c.ns + "/bad: ", "99999", "ConfigMap/" + c.ns + "-nowhere/worse: ", "namespaces"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if diff := cmp.Diff([]string{"Service/bad failed", "ConfigMap/good created", "ConfigMap/worse failed"}, actions(result)); diff != "" {
		t.Error(diff)
	}
	if c.get("v1/configmaps", "old") == nil {
		t.Error("the old object was pruned while the new ones do not exist")
	}
	if got := actions(c.apply(kube.ApplyOptions{}, configMapOf("good", "1"))); got[1] != "ConfigMap/old pruned" {
		t.Errorf("after the failure is mended: %v", got)
	}
}

func TestApplyRecreatesOnlyOnRequest(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, migrateJob)
	changed := strings.Replace(migrateJob, "migrate:1", "migrate:2", 1)
	_, err := c.Apply(t.Context(), c.set, c.objects(changed), kube.ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "recreating the object would apply the change") {
		t.Errorf("error %v does not say how to go on", err)
	}
	before := c.get("batch/v1/jobs", "migrate").GetUID()
	result := c.apply(kube.ApplyOptions{Recreate: true}, changed)
	if got := result.Entries[0]; got.Action != kube.Configured || got.Message != "deleted and created again" {
		t.Errorf("%+v", got)
	}
	if after := c.get("batch/v1/jobs", "migrate").GetUID(); after == before {
		t.Error("the job is the old one")
	}
}

func TestApplyRefusesUnnamedObjectsBeforeFirstChange(t *testing.T) {
	c := newCluster(t)
	_, err := c.Apply(t.Context(), c.set, c.objects(configMapOf("a", "1"), configMapOf("a", "2")), kube.ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "ConfigMap/"+c.ns+"/a is listed twice") {
		t.Error(err)
	}
	if c.get("v1/configmaps", "a") != nil {
		t.Error("it was applied all the same")
	}
}

func TestApplyRefusesRecordOfAnotherTool(t *testing.T) {
	c := newCluster(t)
	set := kube.Set{Name: "theirs", Namespace: c.ns}
	c.create("apiVersion: v1\nkind: Secret\nmetadata: {name: theirs, namespace: NS, labels: {applyset.kubernetes.io/id: " + set.ID() +
		"}, annotations: {applyset.kubernetes.io/tooling: kubectl/v1.36}}")
	c.create("apiVersion: v1\nkind: Secret\nmetadata: {name: password, namespace: NS}")
	for name, want := range map[string]string{"theirs": `belongs to "kubectl/v1.36"`, "password": "records no set"} {
		_, err := c.Apply(t.Context(), kube.Set{Name: name, Namespace: c.ns}, c.objects(configMapOf("a", "1")), kube.ApplyOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestApplyDoesNotWaitForKindOfDefinitionThatFailed(t *testing.T) {
	c := newCluster(t)
	definition := strings.Replace(widgetDefinition, "storage: true", "storage: false", 1)
	widget := "apiVersion: NS.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: NS}"
	result, err := c.Apply(t.Context(), c.set, c.objects(definition, widget), kube.ApplyOptions{Timeout: time.Hour})
	if err == nil || result.Count(kube.Failed) != 2 {
		t.Errorf("%v, %v", actions(result), err)
	}
}

func TestApplyOfUnservedKindTimesOut(t *testing.T) {
	c := newCluster(t)
	_, err := c.Apply(t.Context(), c.set, c.objects("apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}"), kube.ApplyOptions{Timeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), `does not serve kind Nothing in "example.com/v1"`) {
		t.Error(err)
	}
}

// A listener that accepts but never answers acts as a control plane whose API server is not up yet.
func TestApplyEndsAtOnceWhenCallerCancels(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	engine := kube.New(connect(t, &rest.Config{Host: "http://" + listener.Addr().String()}), kube.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		conn := <-accepted // the request is on its way
		defer conn.Close()
	}()
	_, err = engine.Apply(ctx, kube.Set{Name: "a"}, parse(t, configMap), kube.ApplyOptions{Timeout: time.Hour})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestApplyReleasesSharedObjects(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"), configMapOf("b", "1"))
	force := true
	_, err := c.resource("v1/configmaps", c.ns).Patch(t.Context(), "a", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"key":"1"}}`), metav1.PatchOptions{FieldManager: "gitops", Force: &force})
	if err != nil {
		t.Fatal(err)
	}
	result := c.apply(kube.ApplyOptions{}, configMapOf("b", "1"))
	if got := result.Entries[1]; got.Action != kube.Kept || !strings.Contains(got.Message, "gitops") {
		t.Errorf("%+v", got)
	}
	if _, member := c.get("v1/configmaps", "a").GetLabels()["applyset.kubernetes.io/part-of"]; member {
		t.Error("it is still a member")
	}
}
