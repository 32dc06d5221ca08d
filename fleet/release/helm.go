package release

import (
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/caaph"
)

// Installed is what a cluster has of a release. The zero value means that it has none.
type Installed struct {
	// Status is Helm's word, such as deployed or pending-upgrade.
	Status   string
	Revision int
	// Version is that of the chart, and Values are those that it was installed with.
	Version, Values string
}

// Operation is one of Helm's.
type Operation string

// What Helm does with a release.
const (
	None    Operation = "None"
	Install Operation = "Install"
	Upgrade Operation = "Upgrade"
	// Recover marks a release failed that a killed process left pending, and upgrades it.
	Recover Operation = "Recover"
)

// Operate returns what a HelmReleaseProxy does with its release (C-12, C-19, X-40). The version is that of the chart
// that it wants, also if the proxy names none.
func Operate(r caaph.HelmReleaseProxy, has Installed, version string) (Operation, error) {
	if r.Spec.ReconcileStrategy == caaph.InstallOnce && r.Annotations[caaph.Installed] == "true" {
		return None, nil
	}
	switch {
	case has.Status == "", has.Status == "uninstalled", has.Status == "uninstalling":
		return Install, nil
	case strings.HasPrefix(has.Status, "pending-"):
		return Recover, nil
	case has.Status == "failed", has.Version != version:
		return Upgrade, nil
	}
	same, err := sameValues(has.Values, r.Spec.Values)
	if err != nil || same {
		return None, err
	}
	return Upgrade, nil
}

// sameValues compares values as YAML: order and comments do not count, 1 and "1" differ.
func sameValues(a, b string) (bool, error) {
	var x, y map[string]any
	if err := yaml.Unmarshal([]byte(a), &x); err != nil {
		return false, fmt.Errorf("values of the release: %w", err)
	}
	if err := yaml.Unmarshal([]byte(b), &y); err != nil {
		return false, fmt.Errorf("values of the HelmReleaseProxy: %w", err)
	}
	return len(x) == 0 && len(y) == 0 || reflect.DeepEqual(x, y), nil
}

// Condition is a condition without its time.
type Condition struct{ Type, Status, Reason, Message string }

// Report returns condition HelmReleaseReady for what the cluster has after an operation (C-21).
func Report(has Installed) Condition {
	no := func(reason, message string) Condition { return Condition{"HelmReleaseReady", "False", reason, message} }
	switch {
	case has.Status == "deployed":
		return Condition{"HelmReleaseReady", "True", "Ready", ""}
	case strings.HasPrefix(has.Status, "pending-"):
		return no("HelmReleasePending", "Helm release is in a pending state: "+has.Status)
	case has.Status == "":
		return no("HelmReleaseDeleted", "")
	}
	return no("HelmInstallOrUpgradeFailed", "Helm release is in a failed state: "+has.Status)
}

// Record writes into a HelmReleaseProxy what the cluster has. The name is that of the release, which Helm may have chosen.
func Record(r *caaph.HelmReleaseProxy, has Installed, name string) {
	r.Status.Status, r.Status.Revision = has.Status, has.Revision
	annotate := func(key string) {
		if r.Annotations == nil {
			r.Annotations = make(map[string]string)
		}
		r.Annotations[key] = "true"
	}
	if r.Spec.ReleaseName == "" {
		r.Spec.ReleaseName = name
		annotate(caaph.GeneratedName)
	}
	if has.Status == "deployed" {
		annotate(caaph.Installed)
	}
}

// Removal is what happens with the release of a HelmReleaseProxy that is being deleted.
type Removal string

const (
	// Forget drops the finalizer and leaves the cluster alone.
	Forget Removal = "Forget"
	// Uninstall uninstalls the release, then drops the finalizer.
	Uninstall Removal = "Uninstall"
	// Retry waits until the cluster answers.
	Retry Removal = "Retry"
)

// Remove returns what happens with the release (C-12, C-22). The cluster is nil if it does not exist.
func Remove(r caaph.HelmReleaseProxy, cluster *Cluster, answers bool) Removal {
	switch {
	case cluster == nil, r.Spec.ReconcileStrategy == caaph.InstallOnce, !answers && cluster.Deleting:
		return Forget
	case !answers:
		return Retry
	}
	return Uninstall
}
