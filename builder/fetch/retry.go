package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/transfer"
)

// Retry configures the retries of transient failures. Retries happen only here, so that attempts do not multiply.
type Retry struct {
	Attempts int           // in total; 0 means 4
	Wait     time.Duration // before the second attempt, on average; doubled before each further one; 0 means 500 ms
}

// advance is how many bytes beyond all earlier attempts a failed one must get to reset the count of attempts. A server without
// ranges sends the first bytes every time.
const advance = 1 << 20

// maxWait is the longest pause between two attempts.
const maxWait = 15 * time.Second

// Do calls f until it succeeds, fails permanently, has been called Attempts times, or ctx ends. Attempts that advance a
// transfer do not count.
func (r Retry) Do(ctx context.Context, f func(context.Context) error) error {
	attempts, wait := r.Attempts, r.Wait
	if attempts <= 0 {
		attempts = 4
	}
	if wait <= 0 {
		wait = 500 * time.Millisecond
	}
	reached := int64(-1)
	return transfer.Retry{First: 2 * wait, Longest: maxWait, Attempts: attempts, Transient: Transient, Advanced: func(err error) bool {
		cut, ok := errors.AsType[*cutError](err)
		if !ok {
			return false
		}
		if reached < 0 {
			reached = cut.before
		}
		advanced := cut.size >= reached+advance
		reached = max(reached, cut.size)
		return advanced
	}}.Do(ctx, f)
}

// Retrying returns a fetcher that retries f after transient failures.
func Retrying(f Fetcher, r Retry) Fetcher {
	return fetcherFunc(func(ctx context.Context, b Blob) (stored Stored, err error) {
		err = r.Do(ctx, func(ctx context.Context) error {
			stored, err = f.Fetch(ctx, b)
			return err
		})
		return stored, err
	})
}

// Transient reports whether a retry of the same request may succeed: the connection broke or timed out, or the server is
// busy or broken. Wrong content, an unknown name and a refusal are permanent.
func Transient(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return outage.StatusPasses(status.Code)
	}
	if registry, ok := errors.AsType[*transport.Error](err); ok {
		return outage.StatusPasses(registry.StatusCode)
	}
	return errors.Is(err, transfer.ErrStalled) || errors.Is(err, transfer.ErrSlow) || errors.Is(err, errRange) || outage.Passes(err)
}
