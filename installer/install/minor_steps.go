package install

import (
	"fmt"
	"slices"

	"github.com/sealift/sealift/preflight"
)

// minorSteps are the add-ons that can only go from one minor version to the next. Asked for more, kURL's hooks leave the old version
// in place and succeed, so that the record would say what is not there. kURL takes Rook through the versions between.
func minorSteps() []string { return []string{"longhorn", "rook"} }

// checkMinorSteps refuses a bundle whose add-on is more than one minor version ahead of the one that this node has.
func (i *Install) checkMinorSteps() error {
	var far []preflight.Result
	for _, a := range i.addOns {
		if !slices.Contains(minorSteps(), a.name()) {
			continue
		}
		has := i.recordedVersion(a)
		major, minor, known := majorMinor(has)
		newMajor, newMinor, readable := majorMinor(a.info.Version)
		if known && readable && major == newMajor && newMinor > minor+1 {
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

// majorMinor reads the first two numbers of a version such as 1.19.7.
func majorMinor(version string) (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return major, minor, n == 2
}
