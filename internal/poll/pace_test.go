package poll_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealift/sealift/internal/poll"
)

func TestPaceFollowsTheServer(t *testing.T) {
	pace := poll.Pace{Shortest: 200 * time.Millisecond, Longest: time.Second, Times: 20}
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond: 200 * time.Millisecond, 25 * time.Millisecond: 500 * time.Millisecond, time.Minute: time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			var ended time.Time
			var paused []time.Duration
			err := pace.Until(t.Context(), nil, func(context.Context) (bool, error) {
				if !ended.IsZero() {
					paused = append(paused, time.Since(ended))
				}
				time.Sleep(took)
				ended = time.Now()
				return len(paused) == 2, nil
			})
			if err != nil || paused[0] != want || paused[1] != want {
				t.Errorf("tries of %v: pauses of %v, error %v", took, paused, err)
			}
		})
	}
}
