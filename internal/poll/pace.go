package poll

import (
	"context"
	"time"
)

// Pace computes pauses that spare a slow server and wait no longer than they must for a fast one: each is Times as long as the try before
// it took, and at least Shortest and at most Longest.
type Pace struct {
	Shortest, Longest time.Duration
	Times             int
}

// Until waits as the function Until does, with the pauses of a Pace.
func (p Pace) Until(ctx context.Context, say func(reason error), try func(context.Context) (done bool, err error)) error {
	var took time.Duration
	pause := func() time.Duration { return min(max(time.Duration(p.Times)*took, p.Shortest), p.Longest) }
	return wait(ctx, pause, say, func(ctx context.Context) (bool, error) {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		return try(ctx)
	})
}
