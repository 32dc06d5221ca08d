package lifecycle

import (
	"context"
	"time"

	"github.com/sealift/sealift/internal/poll"
)

// How often a running step shows what it waits for: when that has changed, and when it has not. Most steps end earlier.
const (
	noteTime  = 30 * time.Second
	quietTime = 2 * time.Minute
)

// noteKey is the key of a context's *noter.
type noteKey struct{}

// noter shows what a running step waits for.
type noter struct {
	runner *runner
	own    *concurrent // of the step, if it is concurrent
	event  Event
	began  time.Time
	shown  time.Time
	last   string // note that was shown
}

// Note says what the step of this context waits for. The observer of its run gets the last note as an event with the outcome Waiting: after
// half a minute, when it has changed, and every two minutes. In a context without a step it does nothing.
func Note(ctx context.Context, what string) {
	if n, ok := ctx.Value(noteKey{}).(*noter); ok {
		n.runner.mu.Lock()
		defer n.runner.mu.Unlock()
		n.event.Note = what
	}
}

// Enough says that the concurrent step of this context has done the part for which steps with AfterPart wait. It may be called again. In
// another context it does nothing.
func Enough(ctx context.Context) {
	if n, ok := ctx.Value(noteKey{}).(*noter); ok && n.own != nil {
		n.own.enough()
	}
}

// noted returns the context in which a step that began just now makes its notes. Call end when the step has ended.
func (r *runner) noted(ctx context.Context, event Event, began time.Time, own *concurrent) (_ context.Context, end func()) {
	n := &noter{runner: r, own: own, event: event, began: began, shown: began}
	n.event.Outcome = Waiting
	shows, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		poll.Repeat(shows, func(ctx context.Context) time.Duration {
			n.show(ctx)
			return noteTime
		})
	}()
	return context.WithValue(ctx, noteKey{}, n), func() { stop(); <-ended }
}

func (n *noter) show(ctx context.Context) {
	n.runner.mu.Lock()
	defer n.runner.mu.Unlock()
	now := time.Now()
	least := quietTime
	if n.event.Note != n.last {
		least = noteTime
	}
	if ctx.Err() != nil || now.Sub(n.shown) < least {
		return
	}
	n.shown, n.last, n.event.Duration = now, n.event.Note, now.Sub(n.began)
	n.runner.observe(n.event)
}
