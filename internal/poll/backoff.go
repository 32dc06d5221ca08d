package poll

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff computes the pauses between failed attempts. Each pause is random between zero and a bound (full jitter), so that
// clients that failed together do not return together: on average it is half of the bound. The bound is First at the beginning, doubles
// after each pause, and is Longest at most.
type Backoff struct {
	First, Longest time.Duration

	bound time.Duration // of the next pause; 0 means First
}

// Until waits as the function Until does, with the pauses of a Backoff. A try whose error NotBefore marks is repeated after the given
// pause at the earliest, whatever Longest is.
func (b *Backoff) Until(ctx context.Context, say func(reason error), try func(context.Context) (done bool, err error)) error {
	return wait(ctx, b.next, say, try)
}

// Reset begins with First again. Call it when an attempt has made progress.
func (b *Backoff) Reset() { b.bound = 0 }

func (b *Backoff) next() time.Duration {
	bound := b.bound
	if bound == 0 {
		bound = min(b.First, b.Longest)
	}
	b.bound = min(2*bound, b.Longest)
	return time.Duration(rand.Int64N(int64(bound) + 1))
}
