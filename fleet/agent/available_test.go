package agent

import (
	"strings"
	"testing"
)

// TestWorkAvailability compares with upstream's agent: missing comes before unknown, and an empty work is not available.
func TestWorkAvailability(t *testing.T) {
	for want, counts := range map[string]map[string]int{
		"True ResourcesAvailable All resources are available":                 {"True": 3},
		"False ResourcesNotAvailable 1 of 3 resources are not available":      {"True": 1, "False": 1, "Unknown": 1},
		"Unknown ResourcesStatusUnknown 2 of 3 resources have unknown status": {"True": 1, "Unknown": 2},
		"Unknown ResourcesStatusUnknown cannot get any available resource":    {},
		"False ResourcesNotAvailable 2 of 2 resources are not available":      {"False": 2},
	} {
		status, reason, message := available(counts)
		if got := strings.Join([]string{status, reason, message}, " "); got != want {
			t.Errorf("%v: %s, want %s", counts, got, want)
		}
	}
}
