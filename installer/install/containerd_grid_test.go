//go:build grid

package install

import (
	"testing"

	"github.com/sealift/sealift/internal/releases"
)

// TestEveryContainerdTakesDropIns covers releases that the lab makes on request.
func TestEveryContainerdTakesDropIns(t *testing.T) {
	for _, r := range releases.Of("containerd", releases.Lab) {
		t.Run(r.Version, func(t *testing.T) { takesDropIns(t, r) })
	}
}
