package lifecycle_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// TestFinishedStepHoldsItsPlace has a step that an earlier run finished, and a concurrent one before it that is to run again.
func TestFinishedStepHoldsItsPlace(t *testing.T) {
	j := journal(t, t.TempDir())
	done := func(context.Context) (lifecycle.State, error) { return nil, nil }
	second := lifecycle.Step{ID: "second", Timeout: time.Minute, Run: done}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{second}, j, quiet); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	first := lifecycle.Step{ID: "first", Timeout: time.Minute, Beside: true, Run: func(context.Context) (lifecycle.State, error) {
		<-gate
		return nil, nil
	}}
	second.After = []string{"first"}
	var told []string
	_, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{first, second, {ID: "third", Timeout: time.Minute, Run: done}}, j, func(e lifecycle.Event) {
		told = append(told, e.Step.ID+" "+string(e.Outcome))
		if len(told) == 1 {
			close(gate)
		}
	})
	if want := []string{"first started", "first finished", "second finished", "third started", "third finished"}; err != nil || !slices.Equal(told, want) {
		t.Errorf("told %v, error %v", told, err)
	}
}
