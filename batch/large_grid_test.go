//go:build grid

package batch_test

import "testing"

// TestTwoThousandPiecesOnFiveHundredNodes is TestKilledCoordinatorIsResumed as a catalogue needs it.
func TestTwoThousandPiecesOnFiveHundredNodes(t *testing.T) {
	newSite(t, t.TempDir(), 500, 4).outlivesKills(2000)
}
