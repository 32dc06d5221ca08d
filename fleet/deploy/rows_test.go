package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

const agentdeploy = "fleet/ocm/addon_framework_addonmanager_controllers_agentdeploy__"

// row is a reconcile of an add-on whose code has some objects.
type row struct {
	Addon        []ocm.ManagedClusterAddOn
	Cluster      []ocm.ManagedCluster
	ExistingWork []ocm.ManifestWork
	Testaddon    struct {
		Name               string
		ConfigCheckEnabled bool
		Objects            []map[string]any
		Err                any
	}
}

// request is the request that upstream sent.
type request struct {
	Verb, Resource, Namespace, Name string
	Object, Patch                   json.RawMessage
}

// outcome is the resulting state, as text.
type outcome struct {
	Finalizers []string
	Conditions map[string]string
	Works      map[string]string
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// texts has the items of a list in order of their text.
func texts[T any](t *testing.T, list []T) (found []string) {
	t.Helper()
	for _, item := range list {
		found = append(found, marshal(t, item))
	}
	slices.Sort(found)
	return found
}

func describe(t *testing.T, a *ocm.ManagedClusterAddOn, works []ocm.ManifestWork) outcome {
	t.Helper()
	o := outcome{Finalizers: slices.Sorted(slices.Values(a.Finalizers)), Conditions: map[string]string{}, Works: map[string]string{}}
	for _, c := range a.Status.Conditions {
		o.Conditions[c.Type] = fmt.Sprintf("%s/%s", c.Status, c.Reason)
		if c.Status == metav1.ConditionTrue {
			o.Conditions[c.Type] += ": " + c.Message
		}
	}
	for _, w := range works {
		if !deploy.IsHook(w) {
			w.Spec.ManifestConfigs = nil // the add-ons of these rows have no probes
		}
		o.Works[w.Namespace+"/"+w.Name] = fmt.Sprint(marshal(t, w.Labels), marshal(t, w.OwnerReferences),
			texts(t, w.Spec.Workload.Manifests), texts(t, w.Spec.ManifestConfigs), marshal(t, w.Spec.DeleteOption))
	}
	return o
}

// upstream returns what upstream left.
func upstream(t *testing.T, a ocm.ManagedClusterAddOn, works []ocm.ManifestWork, observed []upstreamcases.Observation) outcome {
	t.Helper()
	works = slices.Clone(works)
	for _, o := range observed {
		var sent []request
		if err := json.Unmarshal(clean(o.Value), &sent); err != nil {
			t.Fatal(err)
		}
		for _, r := range sent {
			content := r.Object
			if content == nil {
				content = r.Patch
			}
			if r.Resource == "managedclusteraddons" {
				if r.Verb == "update" {
					a.Finalizers, a.Status.Conditions = nil, nil
				}
				if bytes.Contains(content, []byte(`"conditions"`)) {
					a.Status.Conditions = nil
				}
				if err := json.Unmarshal(content, &a); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if r.Verb == "get" || r.Verb == "list" {
				continue
			}
			at := slices.IndexFunc(works, func(w ocm.ManifestWork) bool { return w.Namespace == r.Namespace && w.Name == r.Name })
			switch {
			case r.Verb == "create":
				at = len(works)
				works = append(works, ocm.ManifestWork{})
			case at < 0:
				t.Fatalf("a row of another form: it has %s of %s %s", r.Verb, r.Resource, r.Name)
			case r.Verb == "delete":
				works = slices.Delete(works, at, at+1)
				continue
			}
			var fresh ocm.ManifestWork
			if err := json.Unmarshal(content, &fresh); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(content, []byte(`"manifests"`)) {
				works[at].Spec.Workload.Manifests = nil
			}
			if err := json.Unmarshal(content, &works[at]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return describe(t, &a, works)
}

// clean replaces the placeholders of times in the rows.
func clean(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(`"$now"`), []byte(`"2026-11-20T22:12:26Z"`))
}

// run takes the step of a row and returns the resulting state.
func run(t *testing.T, r row, a *ocm.ManagedClusterAddOn) outcome {
	t.Helper()
	clusters := map[string]*ocm.ManagedCluster{}
	for i := range r.Cluster {
		clusters[r.Cluster[i].Name] = &r.Cluster[i]
	}
	cluster := clusters[a.Namespace]
	if cluster == nil || a.DeletionTimestamp.IsZero() && !cluster.DeletionTimestamp.IsZero() || !deploy.Deployable(a, false) {
		return describe(t, a, r.ExistingWork)
	}
	if c := deploy.Validity(a, clusters[a.Annotations[deploy.HostingCluster]]); c.Type != "" {
		meta.SetStatusCondition(&a.Status.Conditions, c)
	}
	if !deploy.Deployable(a, r.Testaddon.ConfigCheckEnabled) {
		return describe(t, a, r.ExistingWork)
	}
	in := deploy.AddOn{
		Name: a.Name, Cluster: a.Namespace, Manifests: r.Testaddon.Objects, Existing: r.ExistingWork,
		Owner: metav1.OwnerReference{
			APIVersion: "addon.open-cluster-management.io/v1beta1", Kind: "ManagedClusterAddOn", Name: a.Name, Controller: new(true), BlockOwnerDeletion: new(true),
		},
	}
	host := a.Annotations[deploy.HostingCluster]
	in.Hosting = host
	s := deploy.State{AddOn: a, Existing: r.ExistingWork, Hosting: clusters[host]}
	if s.Plan, s.Failed = deploy.Works(in); r.Testaddon.Err != nil {
		s.Failed = fmt.Errorf("%v", r.Testaddon.Err)
	}
	next := deploy.Next(s)
	a.Finalizers = next.Finalizers
	for _, kind := range next.Clear {
		meta.RemoveStatusCondition(&a.Status.Conditions, kind)
	}
	for _, c := range next.Conditions {
		meta.SetStatusCondition(&a.Status.Conditions, c)
	}
	works := map[string]ocm.ManifestWork{}
	for _, w := range slices.Concat(r.ExistingWork, next.Apply) {
		works[w.Namespace+"/"+w.Name] = w
	}
	for _, w := range next.Delete {
		delete(works, w.Namespace+"/"+w.Name)
	}
	return describe(t, a, slices.Collect(maps.Values(works)))
}

func TestDeployRows(t *testing.T) {
	ran := 0
	for _, file := range []string{"default_sync__TestDefaultReconcile", "default_hook_sync__TestDefaultHookReconcile", "hosted_sync__TestHostingReconcile", "hosted_hook_sync__TestHostingHookReconcile"} {
		for _, r := range upstreamcases.Rows[json.RawMessage](t, agentdeploy+file+".json") {
			t.Run(file+"/"+r.Name, func(t *testing.T) {
				var c row
				if err := json.Unmarshal(clean(r.Case), &c); err != nil {
					t.Fatal(err)
				}
				if len(c.Addon) == 0 {
					return // nothing to check
				}
				before := c.Addon[0]
				want := upstream(t, before, c.ExistingWork, r.Observed)
				got := run(t, c, c.Addon[0].DeepCopyObject().(*ocm.ManagedClusterAddOn))
				compare(t, before, got, want)
			})
			ran++
		}
	}
	t.Logf("%d rows", ran)
}

// compare allows this hub to do at once what upstream does in two passes: it writes finalizers first, and works later.
func compare(t *testing.T, before ocm.ManagedClusterAddOn, got, want outcome) {
	t.Helper()
	deleting := !before.DeletionTimestamp.IsZero()
	added := slices.ContainsFunc(want.Finalizers, func(f string) bool { return !slices.Contains(before.Finalizers, f) })
	if deleting { // the API server refuses new finalizers of an object that is deleted
		want.Finalizers = slices.DeleteFunc(want.Finalizers, func(f string) bool { return !slices.Contains(before.Finalizers, f) })
	}
	if !slices.Equal(got.Finalizers, want.Finalizers) {
		t.Errorf("finalizers are %q, want %q", got.Finalizers, want.Finalizers)
	}
	for kind, state := range want.Conditions {
		if got.Conditions[kind] != state {
			t.Errorf("%s is %q, want %q", kind, got.Conditions[kind], state)
		}
	}
	for kind, state := range got.Conditions {
		if _, found := want.Conditions[kind]; !found && (!added || deleting) {
			t.Errorf("%s is %q, want none", kind, state)
		}
	}
	for name, work := range want.Works {
		if got.Works[name] != work {
			t.Errorf("work %s\ngot  %s\nwant %s", name, got.Works[name], work)
		}
	}
	if len(got.Works) != len(want.Works) && (!added || deleting || len(got.Works) < len(want.Works)) {
		t.Errorf("works are %q, want %q", slices.Sorted(maps.Keys(got.Works)), slices.Sorted(maps.Keys(want.Works)))
	}
}

func TestFinalizerRows(t *testing.T) {
	type row struct {
		ExistingFinalizers, ExpectedFinalizers []string
		FinalizerToRemove                      string
	}
	for _, r := range upstreamcases.Rows[row](t, agentdeploy+"util__TestAddonRemoveFinalizer.json") {
		// an add-on without hooks loses this finalizer
		const hook = "addon.open-cluster-management.io/addon-pre-delete"
		rename := func(list []string) (named []string) {
			for _, f := range list {
				named = append(named, strings.Replace(f, r.Case.FinalizerToRemove, hook, 1))
			}
			return named
		}
		a := &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Finalizers: rename(r.Case.ExistingFinalizers)}}
		if got := deploy.Next(deploy.State{AddOn: a}).Finalizers; !slices.Equal(got, rename(r.Case.ExpectedFinalizers)) {
			t.Errorf("%s: %q, want %q", r.Name, got, r.Case.ExpectedFinalizers)
		}
	}
}

// kinds has the API versions of objects for which the rows give only a Go type.
var kinds = map[string]string{"Deployment": "apps/v1", "DaemonSet": "apps/v1"}

func TestManifestConfigRows(t *testing.T) {
	type row struct {
		AgentAddon struct {
			HealthProber    struct{ Type string }
			ManifestConfigs []ocm.ManifestConfig
			Objects         []map[string]any
		}
		ExpectedManifestConfigOption []ocm.ManifestConfig
	}
	for _, r := range upstreamcases.Rows[row](t, agentdeploy+"util__TestGetManifestConfigOption.json") {
		agent := r.Case.AgentAddon
		if agent.HealthProber.Type == "Work" {
			continue // a program's own prober, which no add-on with a template has
		}
		ids := map[ocm.ResourceIdentifier]bool{}
		for _, o := range agent.Objects {
			if text, ok := o["$type"].(string); ok {
				_, kind, _ := strings.Cut(text, ".")
				o["apiVersion"], o["kind"] = kinds[kind], kind
				delete(o, "$type")
			}
			ids[deploy.Identify(o)] = true
		}
		for _, c := range agent.ManifestConfigs { // Sealift omits feedback on absent objects, so they are here
			if !ids[c.ResourceIdentifier] {
				agent.Objects = append(agent.Objects, idle(t, c.ResourceIdentifier))
			}
		}
		a := deploy.AddOn{Name: "test", Cluster: "rome", Manifests: agent.Objects}
		a.Spec.ManifestConfigs = agent.ManifestConfigs
		plan, err := deploy.Works(a)
		if err != nil {
			t.Fatal(err)
		}
		var got []ocm.ManifestConfig
		for _, w := range plan.Works {
			got = append(got, w.Spec.ManifestConfigs...)
		}
		if a, b := texts(t, got), texts(t, r.Case.ExpectedManifestConfigOption); !slices.Equal(a, b) {
			t.Errorf("%s\ngot  %s\nwant %s", r.Name, a, b)
		}
	}
}

// idle is an object without a probe.
func idle(t *testing.T, id ocm.ResourceIdentifier) map[string]any {
	t.Helper()
	m := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": 0},
		"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
	}
	if deploy.Identify(m) != id {
		t.Fatalf("a row of another form: it configures %+v", id)
	}
	return m
}

func TestFeedbackRuleRows(t *testing.T) {
	type row struct {
		ExistFeedbackRules, ExpectedFeedbackRules []ocm.FeedbackRule
		FeedbackRule                              ocm.FeedbackRule
	}
	for _, r := range upstreamcases.Rows[row](t, agentdeploy+"util__TestMergeFeedbackRule.json") {
		id := ocm.ResourceIdentifier{Resource: "configmaps", Name: "c"}
		a := deploy.AddOn{Manifests: []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}}}}
		a.Spec.ManifestConfigs = []ocm.ManifestConfig{
			{ResourceIdentifier: id, FeedbackRules: r.Case.ExistFeedbackRules}, {ResourceIdentifier: id, FeedbackRules: []ocm.FeedbackRule{r.Case.FeedbackRule}},
		}
		plan, err := deploy.Works(a)
		if err != nil {
			t.Fatal(err)
		}
		got := plan.Works[0].Spec.ManifestConfigs
		if len(got) != 1 || marshal(t, got[0].FeedbackRules) != marshal(t, r.Case.ExpectedFeedbackRules) {
			t.Errorf("%s: %s", r.Name, marshal(t, got))
		}
	}
}
