package deploy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/ocm"
)

const hostedManifests = `
- {apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: ns}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: agent, namespace: ns, annotations: {addon.open-cluster-management.io/hosted-manifest-location: hosting}}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: clean, namespace: ns, annotations: {addon.open-cluster-management.io/addon-pre-delete: ""}}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: clean, namespace: ns, annotations: {addon.open-cluster-management.io/addon-pre-delete: "", addon.open-cluster-management.io/hosted-manifest-location: hosting}}}
`

// hosted is an add-on of oslo whose agent is on rome.
func hosted(t *testing.T) deploy.State {
	t.Helper()
	a := &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "oslo", Annotations: map[string]string{deploy.HostingCluster: "rome"}}}
	plan, err := deploy.Works(deploy.AddOn{Name: "hello", Cluster: "oslo", Hosting: "rome", Manifests: manifests(t, hostedManifests)})
	if err != nil {
		t.Fatal(err)
	}
	return deploy.State{AddOn: a, Plan: plan, Hosting: &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}}
}

// advance takes a step, and returns what it did. Agents act at once, except for hooks.
func advance(s *deploy.State, n deploy.Step) string {
	var did []string
	for _, w := range n.Apply {
		did = append(did, "apply "+w.Namespace+"/"+w.Name)
		s.Existing = append(slices.DeleteFunc(s.Existing, func(e ocm.ManifestWork) bool { return e.Namespace == w.Namespace && e.Name == w.Name }), w)
	}
	for _, w := range n.Delete {
		did = append(did, "delete "+w.Namespace+"/"+w.Name)
		s.Existing = slices.DeleteFunc(s.Existing, func(e ocm.ManifestWork) bool { return e.Namespace == w.Namespace && e.Name == w.Name })
	}
	s.AddOn.Finalizers = n.Finalizers
	for _, f := range n.Finalizers {
		did = append(did, strings.TrimPrefix(f, "addon.open-cluster-management.io/"))
	}
	return strings.Join(did, ", ")
}

// complete reports a hook as succeeded.
func complete(s *deploy.State, name string) {
	done := "True"
	for i := range s.Existing {
		if w := &s.Existing[i]; w.Name == name {
			w.Status.ResourceStatus.Manifests = []ocm.ManifestStatus{{StatusFeedback: ocm.StatusFeedback{Values: []ocm.FeedbackValue{
				{Name: "JobComplete", FieldValue: ocm.FieldValue{Type: ocm.FieldString, String: &done}},
			}}}}
		}
	}
}

func state(n deploy.Step, kind string) string {
	text := ""
	for _, c := range n.Conditions {
		if c.Type == kind {
			text = fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return text
}

// TestHostedAddOn follows an add-on from its installation to its end, on two clusters.
func TestHostedAddOn(t *testing.T) {
	s := hosted(t)
	step := func(want string) deploy.Step {
		t.Helper()
		n := deploy.Next(s)
		if got := advance(&s, n); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		return n
	}
	const all = ", addon-pre-delete, hosting-addon-pre-delete, hosting-manifests-cleanup"
	step("apply oslo/addon-hello-deploy-0, apply rome/addon-hello-deploy-hosting-oslo-0" + all)
	if w := s.Existing[1]; len(w.OwnerReferences) != 0 || w.Labels[ocm.AddOnNamespaceLabel] != "oslo" {
		t.Errorf("the hosted work is %+v", w.ObjectMeta)
	}

	s.AddOn.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	const kept = "apply oslo/addon-hello-deploy-0, apply rome/addon-hello-deploy-hosting-oslo-0"
	n := step("apply oslo/addon-hello-pre-delete, apply rome/addon-hello-pre-delete-hosting-oslo, " + kept + all)
	if got := state(n, deploy.HookManifestCompleted); !strings.HasPrefix(got, "False/HookManifestIsNotCompleted: ") {
		t.Error(got)
	}
	complete(&s, "addon-hello-pre-delete")
	if n = step(kept + all); !strings.Contains(state(n, deploy.HookManifestCompleted), "addon-hello-pre-delete-hosting-oslo is not completed") {
		t.Error("one hook of two is enough: " + state(n, deploy.HookManifestCompleted))
	}
	complete(&s, "addon-hello-pre-delete-hosting-oslo")
	step("delete rome/addon-hello-pre-delete-hosting-oslo, hosting-manifests-cleanup")
	step("delete rome/addon-hello-deploy-hosting-oslo-0")
}

// TestHostingClusterIsRemoved shows that a hosting cluster that is gone, going, or no longer named keeps nothing.
func TestHostingClusterIsRemoved(t *testing.T) {
	for name, change := range map[string]func(*deploy.State){
		"gone":        func(s *deploy.State) { s.Hosting = nil },
		"going":       func(s *deploy.State) { s.Hosting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"not a host":  func(s *deploy.State) { s.AddOn.Annotations = nil },
		"another one": func(s *deploy.State) { s.AddOn.Annotations[deploy.HostingCluster] = "paris"; s.Hosting = nil },
	} {
		s := hosted(t)
		advance(&s, deploy.Next(s))
		change(&s)
		if got, want := advance(&s, deploy.Next(s)), "apply oslo/addon-hello-deploy-0, delete rome/addon-hello-deploy-hosting-oslo-0, addon-pre-delete"; got != want {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
	}
	s := hosted(t)
	s.Hosting = nil
	if got := state(deploy.Next(s), deploy.HostingClusterValidity); got != "False/HostingClusterInvalid: hosting cluster rome is not a managed cluster of the hub" {
		t.Error(got)
	}
}

// TestHubAbandonsEndlessHooks shows that nobody waits for hooks forever, and that hooks that cannot be created are waited for.
func TestHubAbandonsEndlessHooks(t *testing.T) {
	s := hosted(t)
	advance(&s, deploy.Next(s))
	s.AddOn.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	s.Plan, s.Failed = deploy.Plan{}, errors.New("the template is gone")
	if n := deploy.Next(s); len(n.Finalizers) != 3 || !strings.Contains(state(n, deploy.HookManifestCompleted), "the hooks cannot be made: the template is gone") {
		t.Errorf("%+v", n)
	}
	s.Abandon = true
	if got := advance(&s, deploy.Next(s)); got != "hosting-manifests-cleanup" {
		t.Error(got)
	}
	if got := advance(&s, deploy.Next(s)); got != "delete rome/addon-hello-deploy-hosting-oslo-0" {
		t.Error(got)
	}
}

// TestHostedHooksRunAfterClusterIsGone shows that the hooks on the hosting cluster run although the other cluster is gone.
func TestHostedHooksRunAfterClusterIsGone(t *testing.T) {
	s := hosted(t)
	advance(&s, deploy.Next(s))
	s.AddOn.DeletionTimestamp, s.Gone = &metav1.Time{Time: time.Unix(1, 0)}, true
	const want = "apply rome/addon-hello-pre-delete-hosting-oslo, apply rome/addon-hello-deploy-hosting-oslo-0, "
	if got := advance(&s, deploy.Next(s)); !strings.HasPrefix(got, want) || strings.Contains(got, " oslo/") {
		t.Error(got)
	}
}

func TestAppliedConditionsFollowAgents(t *testing.T) {
	s := hosted(t)
	if n := deploy.Next(s); state(n, deploy.ManifestApplied) != "" {
		t.Error("applied before an agent said so")
	}
	advance(&s, deploy.Next(s))
	s.Existing[0].Status.Conditions = []metav1.Condition{{Type: "Applied", Status: "True"}}
	s.Existing[1].Status.Conditions = []metav1.Condition{{Type: "Applied", Status: "False", Message: "no room"}}
	n := deploy.Next(s)
	if got := state(n, deploy.ManifestApplied); got != "True/AddonManifestApplied: manifests of addon are applied successfully" {
		t.Error(got)
	}
	if got := state(n, deploy.HostingManifestApplied); got != "False/AddonManifestAppliedFailed: work addon-hello-deploy-hosting-oslo-0 apply failed: no room" {
		t.Error(got)
	}
}

// TestFailureOfAnotherWorkIsCleared uses an add-on whose new work no agent has looked at. What had failed holds no longer.
func TestFailureOfAnotherWorkIsCleared(t *testing.T) {
	s := hosted(t)
	for kind, want := range map[metav1.ConditionStatus]int{metav1.ConditionFalse: 2, metav1.ConditionTrue: 0} {
		s.AddOn.Status.Conditions = []metav1.Condition{
			{Type: deploy.ManifestApplied, Status: kind}, {Type: deploy.HostingManifestApplied, Status: kind},
		}
		if got := deploy.Next(s).Clear; len(got) != want {
			t.Errorf("%s: %q go", kind, got)
		}
	}
}

// TestFailureOfHostedAddOn says on both conditions that its manifests cannot be made.
func TestFailureOfHostedAddOn(t *testing.T) {
	s := hosted(t)
	s.Failed = errors.New("no template")
	for _, kind := range []string{deploy.ManifestApplied, deploy.HostingManifestApplied} {
		if c := state(deploy.Next(s), kind); !strings.Contains(c, "False") {
			t.Errorf("%s is %q", kind, c)
		}
	}
}

func TestValidityOfHostingClusterIsKnownEarly(t *testing.T) {
	s := hosted(t)
	if c := deploy.Validity(s.AddOn, s.Hosting); c.Type != deploy.HostingClusterValidity || c.Status != "True" || c.Reason != "HostingClusterValid" {
		t.Errorf("with its hosting cluster: %+v", c)
	}
	if c := deploy.Validity(s.AddOn, nil); c.Status != "False" || c.Reason != "HostingClusterInvalid" {
		t.Errorf("without it: %+v", c)
	}
	s.AddOn.Annotations = nil
	if c := deploy.Validity(s.AddOn, nil); c.Type != "" {
		t.Errorf("an add-on that nobody hosts: %+v", c)
	}
}

// TestFailedHookRunsAgain uses a Job that fails twice.
func TestFailedHookRunsAgain(t *testing.T) {
	s := hosted(t)
	s.AddOn.Annotations, s.Hosting = nil, nil
	plan, err := deploy.Works(deploy.AddOn{Name: "hello", Cluster: "oslo", Manifests: manifests(t, hostedManifests)[:3]})
	if err != nil {
		t.Fatal(err)
	}
	s.Plan = plan
	advance(&s, deploy.Next(s))
	began := time.Unix(1000, 0)
	s.AddOn.DeletionTimestamp, s.Now = &metav1.Time{Time: began}, began
	next := func() (did, told string) {
		n := deploy.Next(s)
		told = state(n, deploy.HookManifestCompleted)
		if c := n.Conditions; told != "" {
			s.AddOn.Status.Conditions = c
		}
		return advance(&s, n), told
	}
	const work, waiting = "addon-hello-pre-delete", "False/HookManifestIsNotCompleted: hook manifestWork addon-hello-pre-delete is not completed."
	for round := range 2 {
		did, told := next()
		if !strings.Contains(did, "apply oslo/"+work) || round == 0 && told != waiting {
			t.Fatalf("round %d: did %s and told %s", round, did, told)
		}
		for i := range s.Existing {
			if w := &s.Existing[i]; w.Name == work {
				w.CreationTimestamp = metav1.Time{Time: s.Now}
				w.Status.ResourceStatus.Manifests = []ocm.ManifestStatus{{
					ResourceMeta:   ocm.ResourceMeta{Kind: "Job", Namespace: "ns", Name: "clean"},
					StatusFeedback: ocm.StatusFeedback{Values: []ocm.FeedbackValue{text(deploy.JobFailed, "True"), text(deploy.JobFailure, "Job has reached the specified backoff limit")}},
				}}
			}
		}
		const failed = "False/HookManifestFailed: hook manifestWork addon-hello-pre-delete failed and runs again until it succeeds: Job ns/clean: Job has reached the specified backoff limit."
		if did, told := next(); told != failed || strings.Contains(did, "delete oslo") || !deploy.HookFailed(s.AddOn) {
			t.Fatalf("round %d, at once: did %s and told %s", round, did, told)
		}
		s.Now = s.Now.Add(deploy.HookPause)
		if did, told := next(); told != failed || !strings.Contains(did, "delete oslo/"+work) {
			t.Fatalf("round %d, after the pause: did %s and told %s", round, did, told)
		}
	}
	if did, _ := next(); !strings.Contains(did, "apply oslo/"+work) || !deploy.HookFailed(s.AddOn) {
		t.Fatal(did)
	}
	complete(&s, work)
	if did, told := next(); did != "" || told != "True/HookManifestIsCompleted: hook manifestWork addon-hello-pre-delete is completed." {
		t.Errorf("when it succeeds: did %s and told %s", did, told)
	}
}

func text(name, value string) ocm.FeedbackValue {
	return ocm.FeedbackValue{Name: name, FieldValue: ocm.FieldValue{Type: ocm.FieldString, String: &value}}
}
