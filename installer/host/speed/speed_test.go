package speed

import (
	"testing"
	"time"

	"github.com/sealift/sealift/internal/capacity"
)

func TestLimitsFollowHostSize(t *testing.T) {
	for name, row := range map[string]struct {
		cpus           int
		load, slowness float64
		want           Limits
	}{
		"a large host at rest":      {16, 0.2, 0.7, 2},
		"a large host that works":   {16, 17, 1.2, 2},
		"a large host with more":    {16, 33, 1, 3},
		"two processors":            {2, 0.1, 1, 3},
		"two that unpack images":    {2, 4.1, 1, 4},
		"one processor, busy":       {1, 30, 1, 5},
		"an emulated machine":       {2, 0.1, 8.9, 11},
		"an emulated one, busy":     {2, 8, 8.9, 13},
		"a measurement gone astray": {2, 0.1, 1e300, 15},
	} {
		if got := limitsFor(row.cpus, row.load, row.slowness); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

func TestHostGetsShareOfProcessors(t *testing.T) {
	for name, row := range map[string]struct {
		allowed float64
		spent   capacity.Ticks
		want    float64
	}{
		"a machine of its own":             {1, capacity.Ticks{Used: 1000}, 1},
		"a container with a fifth":         {0.2, capacity.Ticks{Used: 1000}, 0.2},
		"a virtual machine without credit": {1, capacity.Ticks{Used: 1000, Stolen: 9000}, 0.1},
		"both":                             {0.5, capacity.Ticks{Used: 1000, Stolen: 1000}, 0.5},
		"nothing was read":                 {1, capacity.Ticks{}, 1},
		"no processor at all":              {1, capacity.Ticks{Stolen: 10}, 0.001},
	} {
		if got := shareOf(row.allowed, row.spent); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

func TestSlownessOfThisHostIsPlausible(t *testing.T) {
	if got := Slowness(); got < 0.05 || got > 100 {
		t.Errorf("this host takes %.2f times as long as usual", got)
	}
	if got := Patience(time.Minute); got < time.Minute || got > Most*time.Minute {
		t.Errorf("a minute is %s here", got)
	}
}

func TestChosenLimitsStayOnUsualHosts(t *testing.T) {
	for name, row := range map[string]struct {
		cpus     int
		slowness float64
		want     time.Duration
	}{
		"a large host":        {16, 0.7, time.Minute},
		"two processors":      {2, 1.2, time.Minute},
		"two that are slow":   {2, 2, 2 * time.Minute},
		"an emulated machine": {2, 8.9, 5 * time.Minute},
		"the slowest of all":  {1, 90, 7 * time.Minute},
	} {
		if got := stretch(time.Minute, row.cpus, row.slowness); got != row.want {
			t.Errorf("%s: a minute is %v, want %v", name, got, row.want)
		}
	}
}
