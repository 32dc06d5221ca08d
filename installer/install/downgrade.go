package install

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/preflight"
)

// addOnVersion is the version of an add-on in the record of the step that brings its files. On an adopted node it is in the record
// of the step that names its owner.
const addOnVersion = "SEALIFT_ADDON_VERSION"

// checkDowngrade refuses a bundle with an add-on older than this node's. A signature proves who made a bundle, but not when: an
// attacker may replay an old one, whose faults are known by now.
func (j *job) checkDowngrade() error {
	if j.options.AllowDowngrade {
		return nil
	}
	var older []preflight.Result
	for _, a := range j.replaced() {
		if has := j.recordedVersion(a); has != "" && catalog.CompareVersions(a.info.Version, has) < 0 {
			older = append(older, preflight.Result{Check: "downgrade", Status: preflight.Fail,
				Message: fmt.Sprintf("this node has %s %s, the bundle brings %s", a.name(), has, a.info.Version),
				Hint:    "take a newer bundle, or go back on purpose with --allow-downgrade"})
		}
	}
	if len(older) > 0 {
		return &preflight.RefusedError{Against: older}
	}
	return nil
}

// replaced returns the add-ons that the bundle may replace. An install replaces none that runs: checkRunning refuses another version.
func (j *job) replaced() []addOn {
	if j.options.Upgrade != nil {
		return j.addOns
	}
	runs := j.runningAddOns()
	return slices.DeleteFunc(slices.Clone(j.addOns), func(a addOn) bool { return runs[a.name()].version != "" })
}

// recordedVersion is the version of an add-on that this node has, or "".
func (h *hostFacts) recordedVersion(a addOn) string {
	brought, _ := h.past.Last(a.name() + "/" + filesStep)
	adopted, _ := h.past.Last(a.name() + "/" + installStep)
	return cmp.Or(brought.State[addOnVersion], adopted.State[addOnVersion])
}
