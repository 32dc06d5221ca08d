//go:build grid

package airgap_test

import (
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestEveryReleaseOnEverySystem installs the releases that the other test does not.
func TestEveryReleaseOnEverySystem(t *testing.T) {
	for _, row := range []struct{ kubernetes, system string }{{previous, "debian-12"}, {previous, "debian-13"}, {current, "debian-13"}} {
		t.Run(row.kubernetes+" on "+row.system, func(t *testing.T) {
			r := build(t, row.kubernetes, row.system)
			n := node{lab.Host(t, host.Spec{OS: row.system, USB: []string{r.usb}}), t}
			n.must(install)
			cluster(n)
			secondRun(n)
		})
	}
}
