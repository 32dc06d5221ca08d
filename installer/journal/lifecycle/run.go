package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/host/speed"
)

// Event reports the progress of a run to an observer.
type Event struct {
	Step     Step
	Outcome  Outcome
	Skipped  bool // finished by an earlier run
	Number   int  // of the step in the plan, from one
	Total    int  // of steps in the plan
	Duration time.Duration
	Err      error
	Note     string // what the step waits for, with the outcome Waiting
}

// StepError is the failure of one step.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step.ID, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// Run runs the unfinished steps of the journal, in the order of the plan: a step begins when all before it are finished, except
// concurrent ones. For one of these it waits only if it names it in After, or if a step before it that is not concurrent does, whether
// an earlier run has finished that one or not. With AfterPart it waits only until that one calls Enough.
//
// At the first failure the steps that run beside it are canceled and waited for, and nothing more begins. observe gets
// one event at a time. Run returns how many steps it began, and a *StepError for each that failed on its own.
func Run(ctx context.Context, operation Operation, plan Plan, j *Journal, observe func(Event)) (ran int, err error) {
	if err := plan.check(); err != nil {
		return 0, err
	}
	if err := j.Begin(); err != nil {
		return 0, err
	}
	if err := j.closeOpen(); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &runner{operation: operation, journal: j, observe: observe, stop: stop, running: make(map[string]*concurrent)}
	for i, step := range plan {
		if ctx.Err() != nil {
			break
		}
		event := Event{Step: step, Number: i + 1, Total: len(plan)}
		if rec, done := j.Finished(step); done {
			if !step.Beside && !await(ctx, r.awaited(step)) {
				break
			}
			r.skip(ctx, event, rec)
		} else if step.Beside {
			after, own := r.awaited(step), &concurrent{part: make(chan struct{}), finished: make(chan struct{})}
			r.running[step.ID] = own
			r.beside.Go(func() { r.run(ctx, event, after, own) })
		} else {
			r.run(ctx, event, r.awaited(step), nil)
		}
	}
	r.beside.Wait()
	if len(r.failures) == 0 {
		return r.ran, context.Cause(ctx)
	}
	return r.ran, errors.Join(r.failures...)
}

// runner is one run of a plan.
type runner struct {
	operation Operation
	journal   *Journal
	stop      context.CancelCauseFunc
	beside    sync.WaitGroup
	running   map[string]*concurrent // those that this run began

	mu       sync.Mutex // guards the fields below
	observe  func(Event)
	ran      int
	failures []error
}

// concurrent is a step that the following ones may overtake. Its channels are closed when it has called Enough or is finished, and when it
// is finished.
type concurrent struct {
	part, finished chan struct{}
	once           sync.Once
}

func (c *concurrent) enough() { c.once.Do(func() { close(c.part) }) }

// awaited returns channels that are closed when the predecessors of a step have done what it waits for.
func (r *runner) awaited(step Step) (after []chan struct{}) {
	for _, id := range step.After {
		if one, beside := r.running[id]; beside {
			after = append(after, one.finished)
		}
	}
	for _, id := range step.AfterPart {
		if one, beside := r.running[id]; beside {
			after = append(after, one.part)
		}
	}
	return after
}

// skip restores the state of a step that an earlier run has finished.
func (r *runner) skip(ctx context.Context, event Event, rec Record) {
	event.Outcome, event.Skipped, event.Duration = Finished, true, rec.Duration
	if restore := event.Step.Restore; restore != nil && len(rec.State) > 0 {
		event.Err = restore(ctx, rec.State)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if event.Err != nil {
		r.fail(event)
		return
	}
	r.observe(event)
}

// await waits for steps to finish. It reports false if the run ends before.
func await(ctx context.Context, finished []chan struct{}) bool {
	for _, one := range finished {
		select {
		case <-one:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// run runs a step once its predecessors allow it. own is that of a concurrent step, and else nil.
func (r *runner) run(ctx context.Context, event Event, after []chan struct{}, own *concurrent) {
	if !await(ctx, after) {
		return
	}
	begin := time.Now()
	if !r.begin(ctx, event, begin) {
		return
	}
	step := event.Step
	timeout := step.Timeout
	if !step.Fixed {
		timeout = speed.Patience(timeout)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done after %v", timeout))
	defer cancel()
	noted, stop := r.noted(bounded, event, begin, own)
	state, err := step.Run(noted)
	stop()
	if err != nil && bounded.Err() != nil && !failedElsewhere(ctx) { // it took too long, or a signal ended it
		err = fmt.Errorf("%w: %w", context.Cause(bounded), err)
	}
	event.Duration, event.Err = time.Since(begin), err
	if r.end(ctx, event, state) && own != nil {
		own.enough()
		close(own.finished)
	}
}

// begin records and reports that a step begins, unless another has ended the run.
func (r *runner) begin(ctx context.Context, event Event, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	r.ran++
	event.Outcome = Started
	r.observe(event)
	if event.Err = r.journal.append(r.record(event, now)); event.Err != nil {
		event.Outcome = Failed
		r.observe(event)
		r.fail(event)
		return false
	}
	return true
}

// end records and reports how a step ended, and returns whether it is finished. A failure ends the run before anything else can
// begin, so that no record of a start follows that of a failure.
func (r *runner) end(ctx context.Context, event Event, state State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	event.Outcome = Finished
	if event.Err != nil {
		event.Outcome = Failed
		if failedElsewhere(ctx) {
			event.Outcome = Stopped
		}
	}
	rec := r.record(event, time.Now())
	if event.Outcome == Finished {
		rec.State = state
	}
	if err := r.journal.append(rec); err != nil {
		event.Outcome, event.Err = Failed, errors.Join(event.Err, err)
	}
	r.observe(event)
	if event.Outcome == Failed {
		r.fail(event)
	}
	return event.Outcome == Finished
}

// failedElsewhere reports whether the failure of a step has ended the run.
func failedElsewhere(ctx context.Context) bool {
	var other *StepError
	return errors.As(context.Cause(ctx), &other)
}

// fail ends the run. The lock is held.
func (r *runner) fail(event Event) {
	failure := &StepError{Step: event.Step, Err: event.Err}
	r.failures = append(r.failures, failure)
	r.stop(failure)
}

func (r *runner) record(event Event, now time.Time) Record {
	rec := Record{Time: now.UTC(), Operation: r.operation, Step: event.Step.ID, Phase: event.Step.Phase, AddOn: event.Step.AddOn,
		Inputs: event.Step.Inputs, Options: event.Step.Options, Outcome: event.Outcome, Duration: event.Duration}
	if event.Err != nil {
		rec.Error = event.Err.Error()
	}
	return rec
}
