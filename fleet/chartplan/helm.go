package chartplan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/helm"
)

// Installed is the state of a release on a cluster. The zero value means that it is not installed.
type Installed struct {
	// Status is Helm's word, such as deployed or pending-upgrade.
	Status   string
	Revision int
	// Version is the chart's, and Values are the installed ones.
	Version, Values string
	// Owner is the value of OwnerLabel. Releases of others, and of upstream, have none.
	Owner string
	// Mirrors is the value of MirrorsLabel.
	Mirrors string
}

// MirrorsLabel is on the record of a release whose images a cluster pulls from elsewhere. It identifies the mirrors.
const MirrorsLabel = "fleet.sealift.dev/mirrors"

// OwnerLabel is on the record of a release that a HelmReleaseProxy installed. Its value is the result of Owner.
const OwnerLabel = "fleet.sealift.dev/owner"

// Owner identifies the proxy of a release. A hub that was restored has the same owners.
func Owner(r caaph.HelmReleaseProxy) string {
	name := r.Labels[caaph.ChartLabel]
	if name == "" {
		name = r.Name
	}
	sum := sha256.Sum256([]byte(r.Namespace + "/" + name + "/" + r.Spec.ClusterRef.Name))
	return hex.EncodeToString(sum[:16])
}

// Foreign reports whether a release has another owner, and must be left alone (C-23). TakeOwnership takes a release over.
func Foreign(r caaph.HelmReleaseProxy, has Installed) bool {
	return has.Status != "" && has.Status != "uninstalled" && !r.Spec.Options.TakeOwnership && !Owns(r, has)
}

// Owns reports whether a release is the proxy's, so that it goes with the proxy. One without an owner is the proxy's if upstream installed
// it for this proxy. TakeOwnership does not count: another proxy may have taken the release over since, and one that was never
// installed has taken nothing over.
func Owns(r caaph.HelmReleaseProxy, has Installed) bool {
	if has.Owner != "" {
		return has.Owner == Owner(r)
	}
	return r.Annotations[caaph.Installed] == "true" || r.Status.Revision != 0
}

// Name returns the name of the release. If the proxy names none, it is made of the chart's name and the proxy's UID, so
// that a process that is killed finds it again (C-9).
func Name(r caaph.HelmReleaseProxy) string {
	if r.Spec.ReleaseName != "" {
		return r.Spec.ReleaseName
	}
	sum := sha256.Sum256([]byte(r.UID))
	base := r.Spec.ChartName[strings.LastIndex(r.Spec.ChartName, "/")+1:]
	const longest = 53 // as Helm allows
	suffix := "-" + hex.EncodeToString(sum[:5])
	return strings.Trim(base[:min(len(base), longest-len(suffix))], "-.") + suffix
}

// Once reports whether a release was installed, and is left alone since (InstallOnce).
func Once(r caaph.HelmReleaseProxy) bool {
	return r.Spec.ReconcileStrategy == caaph.InstallOnce && r.Annotations[caaph.Installed] == "true"
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

// Operate returns what a HelmReleaseProxy does with its release (C-12, C-19, X-40). The version is the wanted chart's, even if
// the proxy names none.
func Operate(r caaph.HelmReleaseProxy, has Installed, version string) (Operation, error) {
	if Once(r) {
		return None, nil
	}
	switch {
	case has.Status == "", has.Status == "uninstalled", has.Status == "uninstalling":
		return Install, nil
	case strings.HasPrefix(has.Status, "pending-"):
		return Recover, nil
	case has.Status == "failed", !SameVersion(has.Version, version):
		return Upgrade, nil
	case r.Spec.Options.TakeOwnership && !Owns(r, has) && r.Annotations[caaph.Installed] != "true":
		// an upgrade records the new owner, once: two proxies that want the release do not fight
		return Upgrade, nil
	}
	same, err := sameValues(has.Values, r.Spec)
	if err != nil || same {
		return None, err
	}
	return Upgrade, nil
}

// SameVersion reports whether a chart matches a version. Repositories return the charts v1.2.3 and 1.2.3+4 for version 1.2.3, so a release
// of these needs no upgrade.
func SameVersion(has, want string) bool {
	if has == want {
		return true
	}
	had, err1 := semver.NewVersion(has)
	wanted, err2 := semver.NewVersion(want)
	return err1 == nil && err2 == nil && had.Equal(wanted) && (wanted.Metadata() == "" || had.Metadata() == wanted.Metadata())
}

// Exact returns the version of the chart, if the proxy names one and not a range. The chart may call itself otherwise.
func Exact(r caaph.HelmReleaseProxy) (version string, exact bool) {
	version, _, _ = strings.Cut(r.Spec.Version, "@")
	_, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	return version, err == nil
}

// sameValues reports whether an upgrade would not change the values of a release.
func sameValues(has string, want caaph.HelmReleaseProxySpec) (bool, error) {
	had, err := helm.ReadValues([]byte(has))
	if err != nil {
		return false, fmt.Errorf("values of the release: %w", err)
	}
	given, err := helm.ReadValues([]byte(want.Values))
	if err != nil {
		return false, fmt.Errorf("values of the HelmReleaseProxy: %w", err)
	}
	if u := want.Options.Upgrade; !u.ResetValues && (u.ReuseValues || u.ResetThenReuseValues) {
		given = helm.MergeValues(had, given)
	}
	return helm.SameValues(had, given), nil
}

// Condition is a condition without its time.
type Condition struct{ Type, Status, Reason, Message string }

// Report returns condition HelmReleaseReady for the state of the cluster after an operation (C-21).
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

// Record writes the state of the cluster into a HelmReleaseProxy. The name is the release's, which Helm may have chosen.
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

// Removal is the action for the release of a HelmReleaseProxy that is being deleted.
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
