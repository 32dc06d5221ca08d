package operation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/operation/record"
)

// end is the end of the work on a node.
type end struct {
	name string
	err  error
}

// spread asks the nodes of a stage, as many at a time as it allows: also those that join meanwhile. The record has a node as working before
// it is asked, so that a leader that resumes knows who may be working.
func (r *Run) spread(ctx context.Context, s Stage) error {
	ends, asked := make(chan end), map[string]bool{}
	var errs []error
	stopped := false // running nodes finish on their own
	for {
		var ask []string
		paused := false
		if !stopped {
			var err error
			if ask, paused, err = r.next(ctx, s, asked); err != nil {
				errs, stopped = append(errs, err), true
			}
		}
		now := r.known()
		for _, name := range ask {
			asked[name] = true
			request := Request{now.ID, s.ID, now.Params}
			go func() { ends <- end{name, r.Nodes.Apply(ctx, name, request)} }()
		}
		if len(asked) == 0 && !paused {
			return errors.Join(errs...)
		}
		var look <-chan time.Time
		if s.Pauses {
			look = time.After(cmp.Or(r.Look, lookPause))
		}
		var e end
		select {
		case <-look:
			continue
		case e = <-ends:
		}
		delete(asked, e.name)
		state := record.Node{State: record.Done}
		if e.err != nil {
			errs = append(errs, e.err)
			stopped = stopped || !s.Tolerant || ctx.Err() != nil
			state = record.Node{State: record.Failed, Error: e.err.Error()}
		}
		if ctx.Err() != nil && e.err != nil { // it may still be running
			continue
		}
		if err := r.note(ctx, state, e.name); err != nil {
			errs, stopped = append(errs, err), true
		}
	}
}

// Round asks all nodes of a stage once more, also those that are done with it. It is for Before and After of stages in which every node
// is asked several times.
func (r *Run) Round(ctx context.Context, s Stage) error {
	if err := r.change(ctx, s.enter); err != nil {
		return err
	}
	return r.spread(ctx, s)
}

// lookPause is the time between two looks at a run that a person may pause.
const lookPause = 2 * time.Second

// next selects the nodes to ask now, and records that they work. paused reports whether others wait for a person to resume the run.
func (r *Run) next(ctx context.Context, s Stage, asked map[string]bool) (ask []string, paused bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, false, err
	}
	if s.Pauses {
		if err := r.look(ctx); err != nil {
			return nil, false, err
		}
	}
	nodes, err := r.Nodes.List(ctx)
	if err != nil {
		return nil, false, err
	}
	if ask, paused, err = decide(s, nodes, r.known(), r.Own, asked); err != nil {
		return nil, false, err
	}
	if err := r.note(ctx, record.Node{State: record.Working}, ask...); err != nil {
		return nil, false, err
	}
	return ask, paused, nil
}

// look reads whether a person has paused the run.
func (r *Run) look(ctx context.Context) error {
	all, err := r.Records.Read(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.leads(all); err != nil {
		return err
	}
	r.Record.Paused = all[r.Record.Kind].Paused
	if r.paused != r.Record.Paused && r.OnPause != nil {
		r.OnPause(r.Record.Paused)
	}
	r.paused = r.Record.Paused
	return nil
}

// note writes the state of nodes.
func (r *Run) note(ctx context.Context, n record.Node, names ...string) error {
	if known := r.known(); !slices.ContainsFunc(names, func(name string) bool { return known.Nodes[name] != n }) {
		return nil
	}
	return r.change(ctx, func(now record.Record) record.Record {
		for _, name := range names {
			now = now.With(name, n)
		}
		return now
	})
}
