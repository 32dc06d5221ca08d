package transfer

import (
	"context"
	"fmt"
	"time"

	"github.com/sealift/sealift/internal/poll"
)

// Retry repeats requests that failed transiently.
type Retry struct {
	First, Longest time.Duration    // bounds of the pauses, as in poll.Backoff
	Attempts       int              // in total; 0 means no limit
	Within         time.Duration    // no retry after this time since the first attempt; 0 means no limit
	Transient      func(error) bool // reports whether a retry of the same request may succeed
	// Advanced reports whether an attempt brought a transfer on before it failed. Such an attempt does not count, and the next one begins
	// at once, so that large content arrives even over an unstable connection; nil means that none did.
	Advanced func(error) bool
	// Waiting receives each transient error before the pause; nil drops them.
	Waiting func(error)
}

// Do calls f until it succeeds, fails permanently, runs out of attempts or time, or ctx ends. Each pause is at least as long as the server
// asks for, up to MaxPause.
func (r Retry) Do(ctx context.Context, f func(context.Context) error) error {
	begin, n := time.Now(), 0
	pauses := poll.Backoff{First: r.First, Longest: r.Longest}
	return pauses.Until(ctx, nil, func(ctx context.Context) (bool, error) {
		for {
			asking, asked := WithPause(ctx)
			err := f(asking)
			if err == nil || ctx.Err() != nil || !r.Transient(err) {
				return err == nil, err
			}
			if r.Advanced != nil && r.Advanced(err) {
				n = 0
				pauses.Reset()
				continue
			}
			if n++; n == r.Attempts || r.Within > 0 && time.Since(begin) > r.Within {
				return false, fmt.Errorf("%w (tried %d times)", err, n)
			}
			if r.Waiting != nil {
				r.Waiting(err)
			}
			return false, poll.NotBefore(asked.AtLeast(0), err)
		}
	})
}
