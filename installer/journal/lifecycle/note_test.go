package lifecycle_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// TestLongStepShowsWhatItWaitsFor uses a step that is done at once, one that waits for two things, and one that says nothing.
func TestLongStepShowsWhatItWaitsFor(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		waits := func(d time.Duration, notes ...string) func(context.Context) (lifecycle.State, error) {
			return func(ctx context.Context) (lifecycle.State, error) {
				for _, note := range notes {
					lifecycle.Note(ctx, note)
					time.Sleep(d)
				}
				return nil, nil
			}
		}
		plan := lifecycle.Plan{
			{ID: "short", Timeout: time.Hour, Run: waits(20*time.Second, "etcd starts")},
			{ID: "long", Timeout: time.Hour, Run: waits(175*time.Second, "etcd starts", "the API server starts")},
			{ID: "silent", Timeout: time.Hour, Run: waits(125*time.Second, "")},
		}
		var shown []string
		_, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan, journal(t, dir), func(e lifecycle.Event) {
			if e.Outcome == lifecycle.Waiting {
				shown = append(shown, e.Step.ID+": "+e.Note+" after "+e.Duration.String())
			}
		})
		want := []string{"long: etcd starts after 30s", "long: etcd starts after 2m30s", "long: the API server starts after 3m0s",
			"long: the API server starts after 5m0s", "silent:  after 2m0s"}
		if err != nil || !slices.Equal(shown, want) {
			t.Errorf("%v, %q", err, shown)
		}
	})
	lifecycle.Note(t.Context(), "a note without a step")
	records, err := lifecycle.ReadJournal(dir)
	if err != nil || len(records) != 6 {
		t.Errorf("%d records, want a start and an end of each step; %v", len(records), err)
	}
}
