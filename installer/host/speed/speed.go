// Package speed gives timeouts that fit the host. A wait ends as soon as what it waits for is there, so a long timeout costs only a host on
// which that never happens.
//
// All timeouts of the installer are written for a fast host that has nothing else to do. Patience is the only place that makes them longer:
// lifecycle.Run applies it to the timeouts of steps, the hooks' shell to those of add-ons, and callers to other waits for processes, pods
// and APIs. Timeouts by which two programs agree, such as those of leases, stay constant.
package speed

import (
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are the timeouts of kubeadm and Sealift on a host, in multiples of kubeadm's for a fast idle host.
type Limits int

// The multiples for a host at rest, for one whose processors are busy at most, and at most. Two processors are the fewest that a control plane
// may have: on those, unpacking an image takes half of them. An emulated machine is ten times as slow as the one that emulates it.
const (
	least   = 2
	busy    = 5
	Most    = 15
	fewCPUs = 2
)

// Now returns the limits for this host, and its current load.
func Now() Limits {
	var info unix.Sysinfo_t
	load := 0.0
	if unix.Sysinfo(&info) == nil {
		load = float64(info.Loads[0]) / (1 << 16)
	}
	return limitsFor(runtime.NumCPU(), load, Slowness())
}

// Cramped reports whether this host has few processors that are slow even at rest. There, other processes delay the start of a program by minutes.
func Cramped() bool { return runtime.NumCPU() <= fewCPUs && Stretch(1) > 1 }

// limitsFor gives a host with few processors one multiple more, one for each process beyond the first that waits for a processor, and one for
// each time that its processors take longer than usual.
func limitsFor(cpus int, load, slowness float64) Limits {
	l := least
	if cpus <= fewCPUs {
		l++
	}
	l = min(l+int(math.Max(0, math.Round(load/float64(cpus)-1))), busy)
	l += int(math.Max(0, math.Round(min(slowness, 1000)-1)))
	return Limits(min(l, Most))
}

// Of returns a limit in these multiples.
func (l Limits) Of(own time.Duration) time.Duration { return time.Duration(l) * own }

// Patience returns how long this host gets for what may take d on a fast host that has nothing else to do.
func Patience(d time.Duration) time.Duration { return Now().Of(d) / least }

// Stretch returns a limit that somebody else chose, such as the author of an add-on: as it is on a usual host, and a multiple on one that
// is slow even at rest.
func Stretch(d time.Duration) time.Duration { return stretch(d, runtime.NumCPU(), Slowness()) }

func stretch(d time.Duration, cpus int, slowness float64) time.Duration {
	return time.Duration(limitsFor(cpus, 0, slowness)/least) * d
}
