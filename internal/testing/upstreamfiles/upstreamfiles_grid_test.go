//go:build grid

package upstreamfiles

import "testing"

// TestUpstreamFilesAreCarriedAndApplied downloads modules that nothing else needs.
func TestUpstreamFilesAreCarriedAndApplied(t *testing.T) {
	for _, r := range gridRows() {
		t.Run(r.name, r.check)
	}
}
