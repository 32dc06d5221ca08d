package channel

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestLoopPauses counts the pauses of a loop: the first retries until a pass has succeeded, then its interval, even after a
// failed pass.
func TestLoopPauses(t *testing.T) {
	const first, interval = 30 * time.Millisecond, 90 * time.Millisecond
	var log bytes.Buffer
	var at []time.Time
	ctx, cancel := context.WithCancel(t.Context())
	loop := Loop{Interval: interval, firstRetry: first, Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&log, nil))}
	err := loop.Run(ctx, func(context.Context) error {
		at = append(at, time.Now())
		switch len(at) {
		case 1, 2, 4:
			return errors.New("no luck")
		case 5:
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{first, first, interval, interval} {
		if got := at[i+1].Sub(at[i]); got < want || want == first && got >= interval {
			t.Errorf("pause %d is %s, want %s", i+1, got, want)
		}
	}
	if n := strings.Count(log.String(), `msg="the pass failed" error="no luck"`); n != 3 {
		t.Errorf("%d failures in the log, want 3:\n%s", n, &log)
	}
}
