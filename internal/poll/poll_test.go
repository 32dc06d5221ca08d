package poll_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealift/sealift/internal/poll"
)

var (
	errStarts = errors.New("it starts")
	errBroken = errors.New("it is broken")
)

// waitMinute waits every eleven seconds for a minute at most, and returns how long that took.
func waitMinute(t *testing.T, try func(context.Context) (bool, error)) (took time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	err = poll.Until(ctx, 11*time.Second, nil, try)
	return time.Since(began), err
}

func TestUntilEnds(t *testing.T) {
	for name, row := range map[string]struct {
		try  func(n int) (bool, error)
		took time.Duration
		want string // the error
	}{
		"when the try is done":                {func(n int) (bool, error) { return n == 4, nil }, 33 * time.Second, ""},
		"when the try is done and failed":     {func(int) (bool, error) { return true, errBroken }, 0, "it is broken"},
		"when the try is done with a mark":    {func(int) (bool, error) { return true, poll.NotYet(errStarts) }, 0, "it starts"},
		"at once when an error does not pass": {func(n int) (bool, error) { return false, []error{poll.NotYet(errStarts), errBroken}[n-1] }, 11 * time.Second, "it is broken"},
		"with the last error that passed":     {func(n int) (bool, error) { return false, poll.NotYet(fmt.Errorf("try %d", n)) }, time.Minute, "gave up after 1m0s: try 6"},
		"with the last reason that there was": {func(n int) (bool, error) { return false, []error{nil, poll.NotYet(errStarts), nil}[min(n, 3)-1] }, time.Minute, "gave up after 1m0s: it starts"},
		"without a reason":                    {func(int) (bool, error) { return false, nil }, time.Minute, "gave up after 1m0s"},
		"with a mark inside":                  {func(int) (bool, error) { return false, fmt.Errorf("node b: %w", poll.NotYet(errStarts)) }, time.Minute, "gave up after 1m0s: node b: it starts"},
		"with a mark among several":           {func(int) (bool, error) { return false, errors.Join(errBroken, poll.NotYet(errStarts)) }, time.Minute, "gave up after 1m0s: it is broken\nit starts"},
		"as late as a server asks":            {func(n int) (bool, error) { return n == 2, poll.NotBefore(25*time.Second, errStarts) }, 25 * time.Second, "it starts"},
		"not later than its context":          {func(int) (bool, error) { return false, poll.NotBefore(time.Hour, errStarts) }, time.Minute, "gave up after 1m0s: it starts"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				took, err := waitMinute(t, func(context.Context) (bool, error) { n++; return row.try(n) })
				if got := fmt.Sprint(err); row.want == "" && err != nil || row.want != "" && got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
				if took != row.took {
					t.Errorf("it took %s, want %s", took, row.took)
				}
			})
		})
	}
}

// TestEndOfContextHidesNoError has the last try fail because its context ends.
func TestEndOfContextHidesNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		took, err := waitMinute(t, func(ctx context.Context) (bool, error) {
			if tries++; tries == 1 {
				return false, poll.NotYet(errStarts)
			}
			<-ctx.Done()
			return false, fmt.Errorf("get: %w", ctx.Err())
		})
		if took != time.Minute || !errors.Is(err, errStarts) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestCanceledWaitReportsBothReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(interrupted) })
		began := time.Now()
		err := poll.Until(ctx, time.Hour, nil, poll.Success(func(context.Context) error { return errStarts }))
		if time.Since(began) != time.Minute || !errors.Is(err, interrupted) || !errors.Is(err, errStarts) || err.Error() != "it starts (interrupted)" {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if ended, ok := errors.AsType[*poll.EndedError](err); !ok || !ended.Canceled() {
			t.Errorf("got %#v", err)
		}
	})
}

// TestOuterWaitEndsWithInnerOne has a wait inside another one: the inner one's time has expired.
func TestOuterWaitEndsWithInnerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return poll.Until(ctx, time.Second, nil, func(context.Context) (bool, error) {
				return false, fmt.Errorf("node b: %w", poll.NotYet(errStarts))
			})
		}
		took, err := waitMinute(t, func(ctx context.Context) (bool, error) { return false, fmt.Errorf("inner: %w", inner(ctx)) })
		if took != 5*time.Second || err == nil || err.Error() != "inner: gave up after 5s: node b: it starts" || poll.Passes(err) || poll.Ended(err) {
			t.Errorf("after %s: %v", took, err)
		}
		took, err = waitMinute(t, poll.Success(inner))
		if took != time.Minute || !poll.Ended(err) || err.Error() != "gave up after 1m0s: gave up after 5s: node b: it starts" {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestReasonsAreReportedWhenTheyDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		reasons := slices.Concat(slices.Repeat([]string{"a"}, 8), []string{"b", "c", "d", "e", "f", "f", "f", "f", "f"}) // four each second
		n := 0
		err := poll.Until(t.Context(), time.Second/4, poll.Print(&out, "node b"), func(context.Context) (bool, error) {
			if n++; n > len(reasons) {
				return true, nil
			}
			return false, poll.NotYet(errors.New(reasons[n-1]))
		})
		if got := strings.ReplaceAll(out.String(), "waiting for node b: ", ""); err != nil || got != "a\nb\nf\n" {
			t.Errorf("printed %q, %v", got, err)
		}
	})
}

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bounds := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second, time.Second, 2 * time.Second}
		sums := make([]time.Duration, len(bounds))
		const runs = 500
		for range runs {
			b := &poll.Backoff{First: time.Second, Longest: 5 * time.Second}
			n, at := 0, time.Now()
			err := b.Until(t.Context(), nil, func(context.Context) (bool, error) {
				if n > 0 {
					pause := time.Since(at)
					if pause > bounds[n-1] {
						t.Errorf("pause %d is %s, more than %s", n, pause, bounds[n-1])
					}
					sums[n-1] += pause
				}
				if n++; n == 6 {
					b.Reset()
				}
				at = time.Now()
				return n > len(bounds), nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for n, sum := range sums { // the standard deviation of a mean is 0.013 of the bound
			if mean := float64(sum) / runs / float64(bounds[n]); mean < 0.4 || mean > 0.6 {
				t.Errorf("pause %d is %.2f of its bound on average, want about 0.5", n+1, mean)
			}
		}
	})
}

func TestBackoffWaitsAsLongAsServersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &poll.Backoff{First: time.Second, Longest: 2 * time.Second}
		n, began := 0, time.Now()
		err := b.Until(t.Context(), nil, func(context.Context) (bool, error) {
			n++
			return n == 2, map[bool]error{true: nil, false: poll.NotBefore(time.Minute, errStarts)}[n == 2]
		})
		if took := time.Since(began); err != nil || took != time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
		defer cancel()
		began, passes := time.Now(), 0
		poll.Repeat(ctx, func(context.Context) time.Duration { passes++; return time.Duration(passes) * 10 * time.Second })
		if took := time.Since(began); passes != 4 || took != 65*time.Second { // at 0, 10, 30 and 60 seconds
			t.Errorf("%d passes in %s", passes, took)
		}
	})
}
