package deploy_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
)

func manifests(t *testing.T, text string) []map[string]any {
	t.Helper()
	var list []map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAddOnWorks(t *testing.T) {
	a := deploy.AddOn{Name: "hello", Cluster: "rome", Manifests: manifests(t, `
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: agent, namespace: ns}, spec: {replicas: 1}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: none, namespace: ns}, spec: {replicas: 0}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: sa, namespace: ns, annotations: {addon.open-cluster-management.io/deletion-orphan: ""}}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: clean, namespace: ns, labels: {open-cluster-management.io/addon-pre-delete: ""}}}
- {apiVersion: v1, kind: Secret, metadata: {name: nowhere, annotations: {addon.open-cluster-management.io/hosted-manifest-location: none}}}
`), References: []ocm.ConfigReference{{
		ConfigType:    ocm.ConfigType{Group: "g", Resource: "r"},
		DesiredConfig: &ocm.ConfigHash{ConfigObject: ocm.ConfigObject{Name: "c"}, SpecHash: "h"},
	}}}
	plan, err := deploy.Works(a)
	if err != nil || len(plan.Works) != 1 || len(plan.Hooks) != 1 {
		t.Fatal(plan, err)
	}
	w, hook := plan.Works[0], plan.Hooks[0]
	if w.Name != "addon-hello-deploy-0" || w.Namespace != "rome" || w.Labels[ocm.AddOnLabel] != "hello" || len(w.Spec.Workload.Manifests) != 3 {
		t.Errorf("the work is %+v", w)
	}
	if got, want := w.Annotations[configuration.HashAnnotation], `{"r.g//c":"h"}`; got != want {
		t.Errorf("its hashes are %s, want %s", got, want)
	}
	known := []ocm.FeedbackRule{{Type: ocm.WellKnownStatus}}
	agent := ocm.ResourceIdentifier{Group: "apps", Resource: "deployments", Name: "agent", Namespace: "ns"}
	if want := []ocm.ManifestConfig{{ResourceIdentifier: agent, FeedbackRules: known}}; !reflect.DeepEqual(w.Spec.ManifestConfigs, want) {
		t.Errorf("its configs are %+v, want %+v", w.Spec.ManifestConfigs, want)
	}
	stays := ocm.ResourceIdentifier{Resource: "serviceaccounts", Name: "sa", Namespace: "ns"}
	want := &ocm.DeleteOption{PropagationPolicy: ocm.DeleteSelectivelyOrphan, SelectivelyOrphan: &ocm.SelectivelyOrphans{OrphaningRules: []ocm.ResourceIdentifier{stays}}}
	if !reflect.DeepEqual(w.Spec.DeleteOption, want) {
		t.Errorf("its deletion is %+v", w.Spec.DeleteOption)
	}
	job := ocm.ResourceIdentifier{Group: "batch", Resource: "jobs", Name: "clean", Namespace: "ns"}
	if hook.Name != "addon-hello-pre-delete" || !reflect.DeepEqual(hook.Spec.ManifestConfigs, []ocm.ManifestConfig{{ResourceIdentifier: job, FeedbackRules: known}}) {
		t.Errorf("the hook is %+v", hook)
	}
}

// configMap has about n bytes.
func configMap(name string, size int) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"x": strings.Repeat("x", size)}}
}

func names(works []ocm.ManifestWork) string {
	var all []string
	for _, w := range works {
		var list []string
		for _, m := range w.Spec.Workload.Manifests {
			list = append(list, fmt.Sprint(m["metadata"].(map[string]any)["name"]))
		}
		all = append(all, strings.TrimPrefix(w.Name, "addon-a-deploy-")+":"+strings.Join(list, ","))
	}
	return strings.Join(all, " ")
}

func TestManifestsStayInTheirWorks(t *testing.T) {
	a := deploy.AddOn{Name: "a", Manifests: []map[string]any{configMap("one", 300000), configMap("two", 200000), configMap("three", 100000)}}
	plan, err := deploy.Works(a)
	works := plan.Works
	if err != nil || names(works) != "0:one,three 1:two" && names(works) != "0:one 1:two,three" {
		t.Fatal(names(works), err)
	}
	before := names(works)
	a.Existing, a.Manifests = works, append(a.Manifests, configMap("four", 90000))
	plan, err = deploy.Works(a)
	if works = plan.Works; err != nil || len(works) != 2 || strings.ReplaceAll(names(works), ",four", "") != before {
		t.Errorf("a small manifest moved others: %s, they were %s; %v", names(works), before, err)
	}
	a.Existing, a.Manifests = works, a.Manifests[1:]
	plan, err = deploy.Works(a)
	if works = plan.Works; err != nil || strings.Contains(names(works), "one") || !strings.Contains(names(works), "1:two") {
		t.Errorf("after one is gone: %s %v", names(works), err)
	}
}

// TestLargeManifestGetsItsOwnWork has one of more bytes than a work should have, and fewer than one may have.
func TestLargeManifestGetsItsOwnWork(t *testing.T) {
	a := deploy.AddOn{Name: "a", Manifests: []map[string]any{configMap("small", 100), configMap("large", 500000), configMap("tiny", 10)}}
	plan, err := deploy.Works(a)
	if got := names(plan.Works); err != nil || got != "0:large 1:small,tiny" {
		t.Fatal(got, err)
	}
	a.Existing, a.Manifests = plan.Works, append(a.Manifests, configMap("another", 450000))
	if plan, err = deploy.Works(a); err != nil || names(plan.Works) != "0:large 1:small,tiny 2:another" {
		t.Errorf("with another large one: %s %v", names(plan.Works), err)
	}
	// a work that had small ones until one of them grew
	a = deploy.AddOn{Name: "a", Manifests: []map[string]any{configMap("one", 100), configMap("grows", 100)}}
	if plan, err = deploy.Works(a); err != nil || names(plan.Works) != "0:one,grows" {
		t.Fatal(names(plan.Works), err)
	}
	a.Existing, a.Manifests[1] = plan.Works, configMap("grows", 500000)
	if plan, err = deploy.Works(a); err != nil || names(plan.Works) != "0:grows 1:one" {
		t.Errorf("after one grew: %s %v", names(plan.Works), err)
	}
}

func TestWorksRefuse(t *testing.T) {
	for want, m := range map[string]map[string]any{
		"the limit for a manifest is 512000": configMap("big", 512000),
		`not managed, hosting or none`:       manifests(t, `[{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {addon.open-cluster-management.io/hosted-manifest-location: moon}}}]`)[0],
	} {
		if _, err := deploy.Works(deploy.AddOn{Manifests: []map[string]any{m}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestHooksAreCompleteByTheirFeedback(t *testing.T) {
	w := ocm.ManifestWork{}
	w.Spec.Workload.Manifests = manifests(t, `[{kind: Job}, {kind: Pod}]`)
	report := func(name, value string) {
		v := ocm.FeedbackValue{Name: name, FieldValue: ocm.FieldValue{Type: ocm.FieldString, String: &value}}
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, ocm.ManifestStatus{StatusFeedback: ocm.StatusFeedback{Values: []ocm.FeedbackValue{v}}})
	}
	if deploy.Completed(w) {
		t.Error("complete before anything is reported")
	}
	if report("JobComplete", "True"); deploy.Completed(w) {
		t.Error("complete with one of two")
	}
	if report("PodPhase", "Succeeded"); !deploy.Completed(w) {
		t.Error("not complete with both")
	}
}

// TestWellKnownStatusComesFirst deploys a template that requests a value of a Deployment.
func TestWellKnownStatusComesFirst(t *testing.T) {
	a := deploy.AddOn{Manifests: manifests(t, `[{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: n}}]`)}
	rule := ocm.FeedbackRule{Type: ocm.JSONPaths, JSONPaths: []ocm.JSONPath{{Name: "mine", Path: ".status.mine"}}}
	a.Spec.ManifestConfigs = []ocm.ManifestConfig{{ResourceIdentifier: deploy.Identify(a.Manifests[0]), FeedbackRules: []ocm.FeedbackRule{rule}}}
	plan, err := deploy.Works(a)
	if err != nil {
		t.Fatal(err)
	}
	rules := plan.Works[0].Spec.ManifestConfigs[0].FeedbackRules
	if len(rules) != 2 || rules[0].Type != ocm.WellKnownStatus || rules[1].Type != ocm.JSONPaths {
		t.Errorf("got %+v", rules)
	}
}
