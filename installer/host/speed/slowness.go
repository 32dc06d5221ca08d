package speed

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/capacity"
)

// usualWork is how long a server's processor takes for sortNumbers, with some other work beside it. Alone, one of 2023 takes 8 ms.
const usualWork = 12 * time.Millisecond

// Slowness measures how many times longer than usual a processor of this host takes, with the time in which this host is not given one. Only
// tests replace it.
var Slowness = func() float64 { return processorSlowness() / share() }

// processorSlowness is Slowness without the time that others have the processor: only the time counts in which the work had one, and of several
// tries the fastest, as it was disturbed least.
var processorSlowness = sync.OnceValue(func() float64 {
	const tries = 5
	best := sortNumbers()
	for range tries - 1 {
		best = min(best, sortNumbers())
	}
	return float64(best) / float64(usualWork)
})

// started is the time that had been spent when this program asked first.
var started = sync.OnceValue(func() capacity.Ticks { return capacity.Spent(host) })

var host = os.DirFS("/")

// enough is how much time shows what share of its processors a host gets: two seconds.
const enough = 200

// share is how much of its processors this host is given, from 0 to 1: less where a limit of its container or a hypervisor gives them to
// others. What this program has seen counts, or all since the host's start where that was too little.
func share() float64 {
	first, now := started(), capacity.Spent(host)
	spent := now.Since(first)
	if spent.Used+spent.Stolen < enough {
		spent = now
	}
	cpus := runtime.NumCPU()
	return shareOf(capacity.Processors(host, cpus)/float64(cpus), spent)
}

func shareOf(allowed float64, spent capacity.Ticks) float64 {
	given := 1.0
	if all := spent.Used + spent.Stolen; all > 0 {
		given = float64(spent.Used) / float64(all)
	}
	return max(min(allowed, given), 0.001)
}

// sortNumbers takes the time of a piece of work that is always the same, with the mixture of branches and memory that programs have.
func sortNumbers() time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	numbers := make([]uint32, 1<<17)
	start := processorTime()
	x := uint32(1)
	for i := range numbers { // xorshift, which is good enough for numbers without an order
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		numbers[i] = x
	}
	slices.Sort(numbers)
	return processorTime() - start
}

// processorTime is how long this thread had a processor.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil { // no kernel since 2.6.12 refuses that
		return 0
	}
	return time.Duration(t.Nano())
}
