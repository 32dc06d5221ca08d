package lifecycle_test

import (
	"context"
	"errors"
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

// TestStepWaitsForPart has a step that begins in the middle of a concurrent one, and another step that waits for the end of that one.
func TestStepWaitsForPart(t *testing.T) {
	reached := make(chan struct{})
	images := lifecycle.Step{ID: "images", Timeout: time.Minute, Beside: true, Run: func(ctx context.Context) (lifecycle.State, error) {
		lifecycle.Enough(ctx)
		lifecycle.Enough(ctx)
		<-reached
		return nil, nil
	}}
	cluster := lifecycle.Step{ID: "cluster", Timeout: time.Minute, AfterPart: []string{"images"}, Run: func(ctx context.Context) (lifecycle.State, error) {
		lifecycle.Enough(ctx) // not a concurrent step
		close(reached)
		return nil, nil
	}}
	last := lifecycle.Step{ID: "last", Timeout: time.Minute, After: []string{"images"}, Run: func(context.Context) (lifecycle.State, error) { return nil, nil }}
	var told []string
	_, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{images, cluster, last}, journal(t, t.TempDir()), func(e lifecycle.Event) {
		told = append(told, e.Step.ID+" "+string(e.Outcome))
	})
	began, ended := slices.Index(told, "last started"), slices.Index(told, "images finished")
	if err != nil || len(told) != 6 || told[1] != "cluster started" || began < ended {
		t.Errorf("told %v, error %v", told, err)
	}
}

// TestPartThatIsNeverDone has concurrent steps that end without Enough: one that succeeds, one that fails, and one that an earlier run finished.
func TestPartThatIsNeverDone(t *testing.T) {
	j := journal(t, t.TempDir())
	var failure error
	first := lifecycle.Step{ID: "first", Timeout: time.Minute, Beside: true, Run: func(context.Context) (lifecycle.State, error) { return nil, failure }}
	ran := 0
	second := lifecycle.Step{ID: "second", Timeout: time.Minute, AfterPart: []string{"first"}, Run: func(context.Context) (lifecycle.State, error) {
		ran++
		return nil, nil
	}}
	for _, row := range []struct {
		inputs string
		err    error
		want   int // times that the second step ran so far
	}{{"succeeds", nil, 1}, {"fails", errors.New("no space left"), 1}, {"succeeds", nil, 2}, {"is skipped", nil, 3}} {
		first.Again, second.Again, failure = row.inputs != "is skipped", true, row.err
		if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{first, second}, j, quiet); (err != nil) != (row.err != nil) || ran != row.want {
			t.Errorf("the first step %s: %v, the second one ran %d times, want %d", row.inputs, err, ran, row.want)
		}
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{second}, j, quiet); err == nil {
		t.Error("a step waits for the part of one that is not before it")
	}
}
