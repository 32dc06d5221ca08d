// Package status derives the status of an add-on on a cluster from its ManifestWorks: its progress (O-27) and its health (O-37,
// It is pure.
package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/ocm"
)

// Condition is a condition without its time.
type Condition struct{ Type, Status, Reason, Message string }

// AddOn is a ManagedClusterAddOn with its works.
type AddOn struct {
	Name string
	// Configs, Supported and References are as in package configuration.
	Configs    []ocm.AddOnConfig
	Supported  []ocm.ConfigType
	References []ocm.ConfigReference
	Conditions []metav1.Condition
	// Hosted means that another cluster hosts the agent.
	Hosted bool
	Works  []ocm.ManifestWork
}

// Works returns the works of an add-on: those in its cluster's namespace, and those that belong to it in the namespace of
// the hosting cluster.
func Works(name, cluster, hosting string, all []ocm.ManifestWork) []ocm.ManifestWork {
	return slices.DeleteFunc(slices.Clone(all), func(w ocm.ManifestWork) bool {
		owner, elsewhere := w.Labels[ocm.AddOnNamespaceLabel]
		mine := w.Namespace == cluster && !elsewhere || hosting != "" && w.Namespace == hosting && owner == cluster
		return w.Labels[ocm.AddOnLabel] != name || !mine
	})
}

// Progressing returns condition Progressing, and the references. Once all works have the desired configuration and are ready,
// it is the last applied one.
func (a AddOn) Progressing() (Condition, []ocm.ConfigReference) {
	no := func(reason, message string) (Condition, []ocm.ConfigReference) {
		return Condition{"Progressing", "False", reason, message}, a.References
	}
	if message := configuration.Unsupported(a.Configs, a.Supported); message != "" {
		return no("ConfigurationUnsupported", message)
	}
	if meta.FindStatusCondition(a.Conditions, "ManifestApplied") == nil {
		return no("WaitingForManifestApplied", "Waiting for ManagedClusterAddOn ManifestApplied condition")
	}
	if a.Hosted && meta.FindStatusCondition(a.Conditions, "HostingManifestApplied") == nil {
		return no("WaitingForHostingManifestApplied", "Waiting for ManagedClusterAddOn HostingManifestApplied condition")
	}
	if why := a.pending(); why != "" {
		return Condition{"Progressing", "True", "Progressing", "progressing... " + why}, a.References
	}
	done := slices.Clone(a.References)
	for i := range done {
		done[i].LastAppliedConfig = done[i].DesiredConfig
	}
	return Condition{"Progressing", "False", "Completed", "completed with no errors."}, done
}

// pending returns why the add-on waits, or "".
func (a AddOn) pending() string {
	if len(a.Works) == 0 {
		return "no addon works"
	}
	for _, w := range a.Works {
		switch {
		case a.isHook(w):
		case !a.matches(w):
			return "mca and work configs mismatch"
		case !holds(w, "Available") || !holds(w, "Applied"):
			return "work is not ready"
		}
		for _, m := range w.Status.ResourceStatus.Manifests {
			if !rolledOut(m) {
				return fmt.Sprintf("%s %s/%s is not rolled out", m.ResourceMeta.Resource, m.ResourceMeta.Namespace, m.ResourceMeta.Name)
			}
		}
	}
	return ""
}

// isHook reports whether a work runs before the add-on goes.
func (a AddOn) isHook(w ocm.ManifestWork) bool {
	return strings.HasPrefix(w.Name, "addon-"+a.Name+"-pre-delete")
}

// RolledOut is the name of a value that Sealift's agent reports of a workload: whether all of its pods match its present spec,
// and are available. With upstream's agents only the ready replicas count, which may still have the old spec.
const RolledOut = "RolledOut"

// rolledOut reports whether an object has no value RolledOut that is false.
func rolledOut(m ocm.ManifestStatus) bool {
	for _, v := range m.StatusFeedback.Values {
		if b := v.FieldValue.Boolean; v.Name == RolledOut && b != nil {
			return *b
		}
	}
	return true
}

// matches reports whether a work was made from the desired configuration.
func (a AddOn) matches(w ocm.ManifestWork) bool {
	text, found := w.Annotations[configuration.HashAnnotation]
	if !found {
		return len(a.References) == 0
	}
	want, err := configuration.Annotate(a.References)
	if err != nil {
		return false
	}
	var has, wanted map[string]string
	if json.Unmarshal([]byte(text), &has) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
		return false
	}
	for _, hash := range has {
		if hash == "" {
			return false
		}
	}
	complete := !slices.ContainsFunc(a.References, func(r ocm.ConfigReference) bool { return r.DesiredConfig == nil })
	return complete && maps.Equal(has, wanted)
}

// holds reports whether a condition of a work is true for its present content.
func holds(w ocm.ManifestWork, kind string) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

// Available returns condition Available of an add-on whose health follows from its works.
func (a AddOn) Available() Condition {
	is := func(status, reason, message string) Condition { return Condition{"Available", status, reason, message} }
	if len(a.Works) == 0 {
		return is("Unknown", "WorkNotFound", "Work for addon is not found")
	}
	for _, w := range a.Works {
		switch c := meta.FindStatusCondition(w.Status.Conditions, "Available"); {
		case a.isHook(w):
		case c == nil:
			return is("Unknown", "WorkNotApplied", "Work is not applied yet")
		case c.Status == metav1.ConditionFalse:
			return is("False", "WorkNotApplied", c.Message)
		}
	}
	probed := 0
	for _, w := range a.Works {
		for _, m := range w.Status.ResourceStatus.Manifests {
			found, err := probe(m)
			if found {
				probed++
			}
			if err != nil {
				return is("False", "ProbeUnavailable", fmt.Sprintf("Probe addon unavailable with err %v", err))
			}
		}
	}
	if probed == 0 && slices.ContainsFunc(a.Works, hasProbes) {
		return is("Unknown", "NoProbeResult", "Probe results are not returned")
	}
	return is("True", "ProbeAvailable", a.Name+" add-on is available.")
}

// hasProbes reports whether a work has something to probe: a DaemonSet, or a Deployment that wants replicas.
func hasProbes(w ocm.ManifestWork) bool {
	return slices.ContainsFunc(w.Spec.Workload.Manifests, func(m map[string]any) bool {
		spec, _ := m["spec"].(map[string]any)
		replicas, found := spec["replicas"]
		return m["kind"] == "DaemonSet" || m["kind"] == "Deployment" && (!found || fmt.Sprint(replicas) != "0")
	})
}

// counts has the names of the values that an agent reports of a resource: how many pods it wants, and how many are ready.
var counts = map[string][2]string{
	"deployments": {"Replicas", "ReadyReplicas"},
	"daemonsets":  {"DesiredNumberScheduled", "NumberReady"},
}

// probe judges an agent's report of a Deployment or a DaemonSet. It reports whether there is something to judge.
func probe(m ocm.ManifestStatus) (found bool, err error) {
	at := m.ResourceMeta
	names, known := counts[at.Resource]
	if !known {
		return false, nil
	}
	want, wanted := count(m, names[0])
	ready, counted := count(m, names[1])
	deployment := at.Resource == "deployments"
	switch {
	case !wanted && !counted:
		return false, nil
	case deployment && wanted && want == 0: // it needs no pods, and agents omit zeros
		return true, nil
	case !wanted:
		return true, errors.New("desiredNumberReplicas is not probed")
	case !counted:
		return true, errors.New("readyReplica is not probed")
	case deployment && ready >= 1, ready == want:
		return true, nil
	}
	return true, fmt.Errorf("desiredNumberReplicas is %d but readyReplica is %d for %s %s/%s", want, ready, at.Resource, at.Namespace, at.Name)
}

// count returns a number that the agent reports.
func count(m ocm.ManifestStatus, name string) (n int64, found bool) {
	for _, v := range m.StatusFeedback.Values {
		if v.Name == name && v.FieldValue.Integer != nil {
			n, found = *v.FieldValue.Integer, true
		}
	}
	return n, found
}

// LeaseGrace is the maximum age of the Lease of an add-on.
const LeaseGrace = 5 * time.Minute

// Leased returns condition Available of an add-on whose health is its Lease (O-36). fresh reports whether the Lease is not older than LeaseGrace.
func Leased(addOn string, fresh bool) Condition {
	if fresh {
		return Condition{"Available", "True", "ManagedClusterAddOnLeaseUpdated", addOn + " add-on is available."}
	}
	return Condition{"Available", "False", "ManagedClusterAddOnLeaseUpdateStopped", addOn + " add-on is not available."}
}

// NoLease returns condition Available of an add-on whose Lease is not in a namespace of a cluster.
func NoLease(addOn, namespace, cluster string) Condition {
	return Condition{"Available", "Unknown", "ManagedClusterAddOnLeaseNotFound",
		fmt.Sprintf("The status of %s add-on is unknown: there is no Lease %s/%[1]s on %[3]s", addOn, namespace, cluster)}
}
