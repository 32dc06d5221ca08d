package speed

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// usualWork is how long a server's processor takes for sortNumbers, with some other work beside it. Alone, one of 2023 takes 8 ms.
const usualWork = 12 * time.Millisecond

// slowness is how many times longer than usual a processor of this host takes. The load of the host is not part of it: only the time counts in
// which the work had a processor, and of several tries the fastest, as it was disturbed least.
var slowness = sync.OnceValue(func() float64 {
	const tries = 5
	best := sortNumbers()
	for range tries - 1 {
		best = min(best, sortNumbers())
	}
	return float64(best) / float64(usualWork)
})

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
