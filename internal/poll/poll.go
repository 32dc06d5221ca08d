// Package poll waits: Until and Pace for something that others bring about, Backoff before another attempt, Repeat between the passes of a
// daemon. All of them end with their context. It never decides which errors of a service are transient: callers mark those with
// NotYet or NotBefore, or use Success, where all are.
package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// sayEvery is the shortest time between two reasons that a wait reports.
const sayEvery = time.Second

// Until calls try at once, and then again after each pause of every, until try is done or fails, or ctx ends.
//
// When try is done, Until returns its error, which is usually nil. A try that is not done and has no error is repeated, and so is one whose
// error NotYet marks. Any other error ends the wait at once.
//
// When ctx ends, Until returns an *EndedError with the last marked error from before that.
//
// say receives the reason for waiting, without its mark: the first one at once, another one when it differs, and at most one in a
// second. It may be nil.
func Until(ctx context.Context, every time.Duration, say func(reason error), try func(context.Context) (done bool, err error)) error {
	return wait(ctx, func() time.Duration { return every }, say, try)
}

// Success returns a try for Until that is done when check succeeds. All errors of check pass.
func Success(check func(context.Context) error) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		err := check(ctx)
		return err == nil, NotYet(err)
	}
}

// Print returns a say for Until that prints lines such as "waiting for node b: its kubelet does not answer".
func Print(w io.Writer, what string) func(error) {
	return func(reason error) { fmt.Fprintf(w, "waiting for %s: %v\n", what, reason) }
}

func wait(ctx context.Context, next func() time.Duration, say func(error), try func(context.Context) (bool, error)) error {
	start := time.Now()
	speaker := reasonLog{say: say}
	var last error
	for {
		done, err := try(ctx)
		mark := passing(err)
		if done || err != nil && mark == nil && ctx.Err() == nil {
			return unmarked(err)
		}
		if ctx.Err() == nil && err != nil {
			last = unmarked(err)
			speaker.speak(last)
		}
		pause := next()
		if mark != nil {
			pause = max(pause, mark.least)
		}
		if Pause(ctx, pause) == nil {
			continue
		}
		if last == nil { // ctx ended during the first try, or no try returned a reason
			last = unmarked(err)
		}
		return &EndedError{Cause: context.Cause(ctx), Last: last, After: time.Since(start), canceled: errors.Is(ctx.Err(), context.Canceled)}
	}
}

// reasonLog reports reasons that differ, and not too many of them.
type reasonLog struct {
	say  func(error)
	said string
	at   time.Time
}

func (s *reasonLog) speak(reason error) {
	if s.say == nil || reason.Error() == s.said || s.said != "" && time.Since(s.at) < sayEvery {
		return
	}
	s.said, s.at = reason.Error(), time.Now()
	s.say(reason)
}

// Pause returns nil after d, or the cause of ctx as soon as ctx ends. A loop that waits for something uses Until.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Repeat calls pass at once, and then again after each pause that pass asks for, until ctx ends. It is for daemons.
func Repeat(ctx context.Context, pass func(context.Context) (pause time.Duration)) {
	for Pause(ctx, pass(ctx)) == nil {
	}
}
