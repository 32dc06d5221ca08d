package chartplan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/placement"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/rollout"
)

// RolloutAnnotation has the rollout of a HelmChartProxy as YAML: rolloutStrategy as in a ClusterManagementAddOn, and the groups
// of clusters that it names (C-26). Without it, all clusters start at once.
const RolloutAnnotation = "fleet.sealift.dev/rollout"

// Rollout is the content of RolloutAnnotation. Selectors match the labels of Cluster objects.
type Rollout struct {
	RolloutStrategy          ocm.RolloutStrategy `json:"rolloutStrategy,omitzero"`
	DecisionGroups           []ocm.DecisionGroup `json:"decisionGroups,omitempty"`
	ClustersPerDecisionGroup *intstr.IntOrString `json:"clustersPerDecisionGroup,omitempty"`
}

// Known is the state of the chart on a cluster.
type Known struct {
	Cluster Cluster
	// Action is the result of Decide, and Release the one on the cluster. A cluster without a release has a zero one. The action is ""
	// if Decide cannot say.
	Action  Action
	Release caaph.HelmReleaseProxy
	// Blocked clusters do not start. They are paused, or their values cannot be rendered.
	Blocked bool
}

// Advance returns which clusters get their HelmReleaseProxy written now. Clusters with Action Keep need no change; the others
// wait for their turn. Those in held wait for other charts.
func Advance(hcp *caaph.HelmChartProxy, change string, clusters []Known, held map[string]string, state rollout.State, now time.Time) (rollout.Result, error) {
	var r Rollout
	text, found := hcp.Annotations[RolloutAnnotation]
	if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
		return rollout.Result{}, fmt.Errorf("annotation %s: %w", RolloutAnnotation, err)
	}
	in := strategy.Input{Change: change, Strategy: r.RolloutStrategy, PerGroup: r.ClustersPerDecisionGroup}
	in.Held = make(map[string]bool, len(held))
	for cluster := range held {
		in.Held[cluster] = true
	}
	for _, k := range clusters {
		if k.Blocked {
			in.Held[k.Cluster.Name] = true
		}
		if k.Release.Name != "" {
			in.Known = append(in.Known, observe(k))
		}
	}
	groups, err := group(hcp, r, clusters)
	if err == nil {
		in.Groups = groups
		var plan strategy.Plan
		if plan, err = strategy.New(in); err == nil {
			return plan.Decide(state, now)
		}
	}
	if found {
		err = fmt.Errorf("annotation %s: %w", RolloutAnnotation, err)
	}
	return rollout.Result{}, err
}

// observe determines the progress of a cluster. One that cannot be reached holds no slot and no other cluster up, and its
// deadline counts only the time in which it can be.
func observe(k Known) rollout.Target {
	t := rollout.Target{Name: k.Cluster.Name, Status: rollout.Working, Occasional: true}
	available := meta.FindStatusCondition(k.Release.Status.Conditions, "ClusterAvailable")
	if available != nil {
		t.Asleep, t.LastSeen = unreachable(available), available.LastTransitionTime.Time
	}
	ready := meta.FindStatusCondition(k.Release.Status.Conditions, "HelmReleaseReady")
	switch {
	case !k.Release.DeletionTimestamp.IsZero(): // a reinstall continues until the new release is ready
	case k.Action != Keep:
		t.Status = rollout.Waiting
	case unprepared(available) && available.ObservedGeneration == k.Release.Generation:
		t.Status, t.Since = rollout.Failed, available.LastTransitionTime.Time
	case k.Release.Generation != k.Release.Status.ObservedGeneration || ready == nil:
	case ready.Status == metav1.ConditionTrue:
		t.Status, t.Since = rollout.Succeeded, ready.LastTransitionTime.Time
	case ready.Reason == "HelmInstallOrUpgradeFailed":
		t.Status, t.Since = rollout.Failed, ready.LastTransitionTime.Time
	default:
		t.Since = ready.LastTransitionTime.Time
	}
	if k.Blocked && t.Status == rollout.Working { // it makes no progress, so it holds no slot
		t.Status, t.Since = rollout.Waiting, time.Time{}
	}
	return t
}

// unreachable reports whether the cluster itself cannot be reached.
func unreachable(available *metav1.Condition) bool {
	reasons := []string{"GetClusterFailed", "GetKubeconfigFailed", "NotAvailable", "HelmReleaseGetFailed", "WaitsForParcel"}
	return available.Status == metav1.ConditionFalse && slices.Contains(reasons, available.Reason)
}

// unprepared reports whether the hub lacks what every cluster needs, such as the credentials of the chart's repository. The cluster may
// be healthy, so the condition is not a reason to continue without it.
func unprepared(available *metav1.Condition) bool {
	return available != nil && available.Status == metav1.ConditionFalse &&
		(available.Reason == "GetCredentialsFailed" || available.Reason == "GetCACertificateFailed")
}

// group puts the clusters into decision groups, as a placement does.
func group(hcp *caaph.HelmChartProxy, r Rollout, clusters []Known) ([]strategy.Group, error) {
	p := &ocm.Placement{ObjectMeta: metav1.ObjectMeta{Name: hcp.Name, Namespace: hcp.Namespace}}
	p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = r.DecisionGroups
	if r.ClustersPerDecisionGroup != nil {
		p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = *r.ClustersPerDecisionGroup
	}
	var list []*ocm.ManagedCluster
	for _, k := range clusters {
		list = append(list, &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: k.Cluster.Name, Labels: k.Cluster.Labels}})
	}
	decisions, _, err := placement.Group(p, list)
	if err != nil {
		return nil, err
	}
	return strategy.Groups(decisions), nil
}
