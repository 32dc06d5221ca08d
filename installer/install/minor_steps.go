package install

import (
	"fmt"
	"slices"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/preflight"
)

// minorSteps are the add-ons that can only go from one minor version to the next. For a larger step, kURL's hooks leave the old
// version in place and succeed, so that the record would be wrong. kURL takes Rook through the intermediate versions.
func minorSteps() []string { return []string{"longhorn", "rook"} }

// checkMinorSteps refuses a bundle whose add-on is more than one minor version ahead of this node's.
func (j *job) checkMinorSteps() error {
	var far []preflight.Result
	for _, a := range j.replaced() {
		if !slices.Contains(minorSteps(), a.name()) {
			continue
		}
		has := j.recordedVersion(a)
		major, minor := catalog.MajorMinor(has)
		newMajor, newMinor := catalog.MajorMinor(a.info.Version)
		if major >= 0 && major == newMajor && newMinor > minor+1 {
			far = append(far, preflight.Result{Check: "minor versions", Status: preflight.Fail,
				Message: fmt.Sprintf("this node has %s %s, the bundle brings %s; %s goes from one minor version to the next", a.name(), has, a.info.Version, a.name()),
				Hint:    fmt.Sprintf("upgrade to %s %d.%d.x first", a.name(), major, minor+1)})
		}
	}
	if len(far) > 0 {
		return &preflight.RefusedError{Against: far}
	}
	return nil
}
