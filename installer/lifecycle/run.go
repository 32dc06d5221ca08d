package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Event tells an observer how a run goes on.
type Event struct {
	Step     Step
	Outcome  Outcome
	Skipped  bool // finished by an earlier run
	Number   int  // of the step in the plan, from one
	Total    int  // of steps in the plan
	Duration time.Duration
	Err      error
}

// StepError is the failure of one step.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step.ID, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// Run runs the steps that the journal does not have as finished, in order, and stops at the first failure. It returns
// how many ran.
func Run(ctx context.Context, plan Plan, j *Journal, observe func(Event)) (ran int, err error) {
	if err := j.Begin(); err != nil {
		return 0, err
	}
	for i, step := range plan {
		event := Event{Step: step, Number: i + 1, Total: len(plan)}
		if rec, done := j.Finished(step); done {
			if err := restore(ctx, step, rec.State); err != nil {
				return ran, &StepError{Step: step, Err: err}
			}
			event.Outcome, event.Skipped, event.Duration = Finished, true, rec.Duration
			observe(event)
			continue
		}
		event.Outcome = Started
		observe(event)
		ran++
		event.Duration, event.Err = runStep(ctx, step, j)
		event.Outcome = Finished
		if event.Err != nil {
			event.Outcome = Failed
		}
		observe(event)
		if event.Err != nil {
			return ran, &StepError{Step: step, Err: event.Err}
		}
	}
	return ran, nil
}

func restore(ctx context.Context, step Step, state State) error {
	if step.Restore == nil || len(state) == 0 {
		return nil
	}
	return step.Restore(ctx, state)
}

func runStep(ctx context.Context, step Step, j *Journal) (time.Duration, error) {
	begin := time.Now()
	rec := Record{Time: begin.UTC(), Step: step.ID, Phase: step.Phase, AddOn: step.AddOn, Inputs: step.Inputs, Outcome: Started}
	if err := j.append(rec); err != nil {
		return 0, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, step.Timeout, fmt.Errorf("not done after %v", step.Timeout))
	defer cancel()
	state, err := step.Run(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", context.Cause(bounded), err)
	}
	duration := time.Since(begin)
	rec.Time, rec.Duration, rec.Outcome, rec.State = time.Now().UTC(), duration, Finished, state
	if err != nil {
		rec.Outcome, rec.Error, rec.State = Failed, err.Error(), nil
	}
	return duration, errors.Join(err, j.append(rec))
}
