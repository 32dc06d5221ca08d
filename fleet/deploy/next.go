package deploy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/ocm"
)

// HostingCluster is the annotation of a ManagedClusterAddOn that names the cluster that hosts the agent.
const HostingCluster = group + "/hosting-cluster-name"

// Finalizers of a ManagedClusterAddOn.
const (
	hookFinalizer        = group + "/addon-pre-delete"
	hostingHookFinalizer = group + "/hosting-addon-pre-delete"
	hostingFinalizer     = group + "/hosting-manifests-cleanup"
)

// Conditions of a ManagedClusterAddOn.
const (
	ManifestApplied        = "ManifestApplied"
	HostingManifestApplied = "HostingManifestApplied"
	HookManifestCompleted  = "HookManifestCompleted"
	HostingClusterValidity = "HostingClusterValidity"
)

// State is an add-on on a cluster as a controller sees it.
type State struct {
	AddOn *ocm.ManagedClusterAddOn
	// Plan has the works that the add-on should have. Failed is the reason why there is none.
	Plan   Plan
	Failed error
	// Existing are the works that the add-on has on its clusters.
	Existing []ocm.ManifestWork
	// Hosting is the ManagedCluster that hosts the agent, or nil if it does not exist.
	Hosting *ocm.ManagedCluster
	// Gone means that the add-on's own cluster does not exist: nobody runs hooks there.
	Gone bool
	// Abandon means that nobody waits for hooks any longer.
	Abandon bool
	// Now is the time, after which a failed hook may be recreated.
	Now time.Time
}

// Step is the next action for an add-on. Finalizers are written before works are created, and after works are deleted.
type Step struct {
	// Apply has works as they should be. Delete has works that should go.
	Apply, Delete []ocm.ManifestWork
	// Finalizers are those that the add-on has afterwards.
	Finalizers []string
	// Conditions are those that are known. They have no times. Clear has the types of those that hold no longer.
	Conditions []metav1.Condition
	Clear      []string
}

// Deployable reports whether the works of an add-on may be written: its registration has been looked at, and it has its
// configuration, if it has one (O-29, X-22).
func Deployable(a *ocm.ManagedClusterAddOn, configured bool) bool {
	return meta.FindStatusCondition(a.Status.Conditions, "RegistrationApplied") != nil &&
		(!configured || meta.IsStatusConditionTrue(a.Status.Conditions, "Configured"))
}

// Next returns what to do for an add-on.
func Next(s State) Step {
	n := &step{State: s, host: s.AddOn.Annotations[HostingCluster]}
	n.Finalizers = withoutOld(s.AddOn.Finalizers)
	n.hosted = n.host != "" && s.Hosting != nil && s.Hosting.DeletionTimestamp.IsZero()
	if c := Validity(s.AddOn, s.Hosting); c.Type != "" {
		n.Conditions = append(n.Conditions, c)
	}
	if s.AddOn.DeletionTimestamp.IsZero() {
		n.install()
	} else {
		n.remove()
	}
	return n.Step
}

// Validity returns condition HostingClusterValidity of an add-on, which is also known before its works may be written. It is zero if no
// cluster hosts the agent. hosting is the cluster that the add-on names, or nil if there is none.
func Validity(a *ocm.ManagedClusterAddOn, hosting *ocm.ManagedCluster) metav1.Condition {
	host := a.Annotations[HostingCluster]
	switch {
	case host == "":
		return metav1.Condition{}
	case hosting == nil:
		return metav1.Condition{
			Type: HostingClusterValidity, Status: "False", Reason: "HostingClusterInvalid", Message: fmt.Sprintf("hosting cluster %s is not a managed cluster of the hub", host),
		}
	}
	return metav1.Condition{
		Type: HostingClusterValidity, Status: "True", Reason: "HostingClusterValid", Message: fmt.Sprintf("hosting cluster %s is a managed cluster of the hub", host),
	}
}

type step struct {
	State
	Step
	host    string
	hosted  bool // by a cluster that exists and stays
	failing bool // a hook has failed
}

func (n *step) is(kind, status, reason, message string) {
	n.Conditions = append(n.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message})
}

// elsewhere reports whether a work is for the cluster that hosts the agent.
func elsewhere(w ocm.ManifestWork) bool { return w.Labels[ocm.AddOnNamespaceLabel] != "" }

// on returns the works for the add-on's own cluster, or those for the hosting one.
func on(hosting bool, works []ocm.ManifestWork) []ocm.ManifestWork {
	return slices.DeleteFunc(slices.Clone(works), func(w ocm.ManifestWork) bool { return elsewhere(w) != hosting })
}

func find(works []ocm.ManifestWork, w ocm.ManifestWork) *ocm.ManifestWork {
	for i := range works {
		if works[i].Name == w.Name && works[i].Namespace == w.Namespace {
			return &works[i]
		}
	}
	return nil
}

// finalizer keeps a finalizer, or drops it.
func (n *step) finalizer(name string, keep bool) {
	has := slices.Contains(n.Finalizers, name)
	switch {
	case keep && !has:
		n.Finalizers = append(n.Finalizers, name)
	case !keep && has:
		n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == name })
	}
}

// withoutOld drops the finalizers of earlier versions.
func withoutOld(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == "cluster.open-cluster-management.io/addon-pre-delete" || f == "cluster.open-cluster-management.io/hosting-addon-pre-delete" ||
			f == "cluster.open-cluster-management.io/hosting-manifests-cleanup"
	})
}

// install writes the works of an add-on that stays. Works on a cluster that hosts the agent no longer go.
func (n *step) install() {
	if n.Failed != nil {
		n.is(ManifestApplied, "False", "ManifestWorkApplyFailed", "failed to get manifest from agent interface: "+n.Failed.Error())
		if n.hosted {
			n.is(HostingManifestApplied, "False", "ManifestWorkApplyFailed", "failed to get manifest from agent interface: "+n.Failed.Error())
		}
		return
	}
	for _, w := range n.Plan.Works {
		if n.hosted || !elsewhere(w) {
			n.Apply = append(n.Apply, w)
		}
	}
	for _, w := range n.Existing {
		if find(n.Apply, w) == nil && (!IsHook(w) || elsewhere(w) && !n.hosted) {
			n.Delete = append(n.Delete, w)
		}
	}
	n.finalizer(hookFinalizer, len(on(false, n.Plan.Hooks)) > 0)
	n.finalizer(hostingHookFinalizer, n.hosted && len(on(true, n.Plan.Hooks)) > 0)
	n.finalizer(hostingFinalizer, n.hosted)
	n.applied(ManifestApplied, on(false, n.Apply))
	if n.hosted {
		n.applied(HostingManifestApplied, on(true, n.Apply))
	}
}

// applied reports whether agents have applied works. While they are silent, it only resets failures.
func (n *step) applied(kind string, works []ocm.ManifestWork) {
	if len(works) == 0 {
		n.is(kind, "True", "AddonManifestApplied", "no manifest need to apply")
		return
	}
	known := 0
	for _, w := range works {
		has := find(n.Existing, w)
		if has == nil {
			continue
		}
		c := meta.FindStatusCondition(has.Status.Conditions, "Applied")
		if c == nil {
			continue
		}
		known++
		if c.Status != metav1.ConditionTrue {
			n.is(kind, "False", "AddonManifestAppliedFailed", fmt.Sprintf("work %s apply failed: %s", w.Name, c.Message))
			return
		}
	}
	if known == len(works) {
		n.is(kind, "True", "AddonManifestApplied", "manifests of addon are applied successfully")
	} else if meta.IsStatusConditionFalse(n.AddOn.Status.Conditions, kind) {
		n.Clear = append(n.Clear, kind)
	}
}

// remove runs the hooks of an add-on that is deleted. Its works stay, and are kept as they should be, until the hooks are complete:
// they may need them. Then the works on the cluster that hosts its agent go. Those on its own cluster go with the add-on, which owns them.
func (n *step) remove() {
	own, hosting := n.hook(false), n.hook(true)
	if waits := own + hosting; waits != "" {
		reason := "HookManifestIsNotCompleted"
		if n.failing || HookFailed(n.AddOn) {
			reason = hookFailed
		}
		n.is(HookManifestCompleted, "False", reason, waits)
		for _, w := range n.Plan.Works {
			has, answers := find(n.Existing, w), !n.Gone
			if elsewhere(w) {
				answers = n.hosted
			}
			if answers && has != nil && has.DeletionTimestamp.IsZero() {
				n.Apply = append(n.Apply, w)
			}
		}
		return
	}
	n.finalizer(hookFinalizer, false)
	if !slices.Contains(n.Finalizers, hostingHookFinalizer) {
		n.finalizer(hostingFinalizer, false)
		n.Delete = on(true, n.Existing)
		return
	}
	// the works that hosted hooks needed go in the next step
	n.finalizer(hostingHookFinalizer, false)
	for _, w := range on(true, n.Existing) {
		if IsHook(w) {
			n.Delete = append(n.Delete, w)
		}
	}
}

// hook evaluates the hooks for one cluster. It returns the reason why the add-on waits, or "".
func (n *step) hook(hosting bool) string {
	finalizer, applied := hookFinalizer, ManifestApplied
	if hosting {
		finalizer, applied = hostingHookFinalizer, HostingManifestApplied
	}
	done := meta.IsStatusConditionTrue(n.AddOn.Status.Conditions, HookManifestCompleted)
	if !slices.Contains(n.Finalizers, finalizer) || hosting && !n.hosted || !hosting && n.Gone || n.Abandon || done {
		return ""
	}
	var has *ocm.ManifestWork
	for _, w := range on(hosting, n.Existing) {
		if IsHook(w) {
			has = &w // it runs, so it is not changed
		}
	}
	plan := on(hosting, n.Plan.Hooks)
	switch {
	case has == nil && len(plan) > 0:
		n.Apply = append(n.Apply, plan[0])
		return fmt.Sprintf("hook manifestWork %s is not completed.", plan[0].Name)
	case has == nil && n.Failed != nil:
		return fmt.Sprintf("the hooks cannot be made: %v.", n.Failed)
	case has == nil:
		return ""
	case !has.DeletionTimestamp.IsZero():
		return fmt.Sprintf("hook manifestWork %s failed and is about to run again.", has.Name)
	}
	if meta.IsStatusConditionTrue(has.Status.Conditions, "Applied") {
		n.is(applied, "True", "AddonManifestApplied", "manifests of addon are applied successfully")
	}
	if failure := Failure(*has); failure != "" {
		n.failing = true
		if !n.Now.Before(has.CreationTimestamp.Add(HookPause)) {
			n.Delete = append(n.Delete, *has)
		}
		return fmt.Sprintf("hook manifestWork %s failed and runs again until it succeeds: %s.", has.Name, failure)
	}
	if !Completed(*has) {
		return fmt.Sprintf("hook manifestWork %s is not completed.", has.Name)
	}
	n.is(HookManifestCompleted, "True", "HookManifestIsCompleted", fmt.Sprintf("hook manifestWork %s is completed.", has.Name))
	return ""
}

// HookPause is the time from the beginning of a hook that fails to the beginning of the next one.
const HookPause = 30 * time.Second

// hookFailed is the reason of condition HookManifestCompleted from the first failure of a hook until the hooks are complete.
const hookFailed = "HookManifestFailed"

// HookFailed reports whether a hook of an add-on has failed. Such an add-on waits until its hooks succeed, or a user forces its
// removal.
func HookFailed(a *ocm.ManagedClusterAddOn) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, HookManifestCompleted)
	return c != nil && c.Reason == hookFailed
}

// Values that agents report of a Job that failed.
const (
	JobFailed  = "JobFailed" // "True"
	JobFailure = "JobFailureMessage"
)

// Failure returns how a hook of a work has failed, or "".
func Failure(w ocm.ManifestWork) string {
	for _, m := range w.Status.ResourceStatus.Manifests {
		values := make(map[string]string)
		for _, v := range m.StatusFeedback.Values {
			if v.FieldValue.String != nil {
				values[v.Name] = *v.FieldValue.String
			}
		}
		if values[JobFailed] == "True" || values["PodPhase"] == "Failed" {
			return fmt.Sprintf("%s %s/%s: %s", m.ResourceMeta.Kind, m.ResourceMeta.Namespace, m.ResourceMeta.Name, cmp.Or(values[JobFailure], "it failed"))
		}
	}
	return ""
}
