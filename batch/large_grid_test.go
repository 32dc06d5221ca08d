//go:build grid

package batch_test

import "testing"

// TestTwoThousandPiecesOnFiveHundredNodes is TestKilledCoordinatorIsResumed at the size of a catalogue.
func TestTwoThousandPiecesOnFiveHundredNodes(t *testing.T) {
	newSite(t, t.TempDir(), 500, 4).outlivesKills(2000)
}
