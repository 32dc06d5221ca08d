package machine

import (
	"context"
	"fmt"
	"sync"
)

// budget is what concurrent tests use of one computer.
type budget struct {
	mu      sync.Mutex
	cpu     int
	memory  int64
	working int           // tests that have a share
	changed chan struct{} // closed and replaced when a share is returned
}

func newBudget(cpu int, memory int64) *budget {
	return &budget{cpu: cpu, memory: memory, changed: make(chan struct{})}
}

// take waits until the machines of a test fit. A test that is larger than the whole computer waits until it is alone.
func (b *budget) take(ctx context.Context, w Request) (*share, error) {
	s := &share{budget: b, cpu: w.CPU * w.Count, memory: w.Memory * int64(w.Count)}
	for {
		b.mu.Lock()
		if b.working == 0 || s.cpu <= b.cpu && s.memory <= b.memory {
			b.working++
			b.cpu -= s.cpu
			b.memory -= s.memory
			b.mu.Unlock()
			return s, nil
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %d processors and %d bytes of memory: %w", s.cpu, s.memory, ctx.Err())
		case <-changed:
		}
	}
}

// share is what one test uses. Each of its machines may return it; the first one counts.
type share struct {
	budget *budget
	cpu    int
	memory int64
	once   sync.Once
}

func (s *share) giveBack() { s.end(s.cpu, s.memory) }

// keep marks the test as ended while its machines continue and keep their share.
func (s *share) keep() { s.end(0, 0) }

func (s *share) end(cpu int, memory int64) {
	s.once.Do(func() {
		b := s.budget
		b.mu.Lock()
		defer b.mu.Unlock()
		b.working--
		b.cpu += cpu
		b.memory += memory
		close(b.changed)
		b.changed = make(chan struct{})
	})
}
