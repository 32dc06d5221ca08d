package isolation

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/sandbox"
)

// longestWait is how long another tenant may wait for one small task.
const longestWait = 10 * time.Second

// OthersGoOn is for tests of attacks. It runs small tasks of another tenant until the test ends. The test fails if one of them fails or waits long.
func OthersGoOn(t *testing.T, task func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		count, longest := 0, time.Duration(0)
		for ctx.Err() == nil {
			began := time.Now()
			if err := task(ctx); ctx.Err() == nil && err != nil {
				t.Errorf("the other tenant: %v", err)
			}
			count, longest = count+1, max(longest, time.Since(began))
			time.Sleep(5 * time.Millisecond)
		}
		if t.Logf("the other tenant ran %d tasks, each in at most %v", count, longest); longest > longestWait {
			t.Error("the other tenant waited too long")
		}
	})
	t.Cleanup(func() { cancel(); other.Wait() })
}

// CheckMemory fails the test if an ended child had more memory at once, in bytes. The race detector's memory is added.
func CheckMemory(t *testing.T, most int64) {
	t.Helper()
	var children syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children); err != nil {
		t.Fatal(err)
	}
	most *= sandbox.Overhead
	had := children.Maxrss << 10 // Linux counts in KiB
	if t.Logf("the largest child had %d MiB", had>>20); had > most {
		t.Errorf("a child had %d MiB, more than %d", had>>20, most>>20)
	}
}
