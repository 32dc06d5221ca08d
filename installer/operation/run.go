// Package operation leads a change of all nodes of a cluster from one of its control planes.
//
// A change is a list of stages. No node begins with a stage before all have ended the one before, and in each stage only so many nodes
// are at work as it allows: package rollout decides. How far the nodes are is in a record of the cluster (package record), written
// before a node is asked, so that whatever ends the leader, any control plane goes on. Which changes exclude each other is decided by
// package exclusion, with the same write of the records with which a change begins.
//
// A kind of change is a file with its stages and what a node does in each, and a line in a table. Changes of one node by itself are no
// stages: a renewal of certificates and a change of an address take the lock of the cluster and ask package exclusion, and that is all
// that they share with a change of all nodes. Either would be one stage with Nodes for one node, if a control plane led it.
package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/record"
)

// Records are those of a cluster: see record.Store.
type Records interface {
	Read(ctx context.Context) (record.All, error)
	Change(ctx context.Context, change func(record.All) error) error
}

// Nodes are those of a cluster.
type Nodes interface {
	List(ctx context.Context) ([]cluster.Node, error)
	// Apply brings a node to a stage, and returns when it is there. The error names the node.
	Apply(ctx context.Context, name string, r Request) error
}

// Run is one operation, led by this process. Everything that it does may be repeated, by this node or by another control plane: how far
// the nodes are is in the record.
type Run struct {
	// Record is what the cluster knows of the operation, once it has begun.
	Record record.Record
	// Stages are all of this run. A run that Keeps the record ends where a person decides: the record then has no stage, and another run
	// goes on. A Loose one excludes nothing from there on. The record of a run that Stays has ended then: nothing goes on. That of a run that
	// Vanishes goes with the data of the cluster, which the end of its last stage exchanges.
	Stages   []Stage
	Keeps    bool
	Loose    bool
	Stays    bool
	Vanishes bool

	Own     string // the node that leads
	Records Records
	Nodes   Nodes
	// Refuse is asked before the operation begins, with the current records; nil refuses nothing.
	Refuse func(record.All) error

	// Known is the record of the same kind that the cluster had when this run was planned; nil if there was none. A run that has another
	// ID takes its place.
	Known *record.Record
	// Choose is called with the current record when the operation begins, nil for none. It refuses that record, or plans the run for it.
	// Without Choose, the current record has to be Known.
	Choose func(known *record.Record) error
	// Begun is called before the first stage of each run, even if an earlier run has done that stage; nil is nothing.
	Begun func(context.Context) error
	// Ended is called when a run that has begun ends, also with an error, unless its context is over or it no longer leads: the lease of the
	// operation is still held. nil is nothing.
	Ended func() error
	// OnPause is called when a person has paused or resumed the run; nil is nothing. Look is how often the run looks for that; 0 is two
	// seconds.
	OnPause func(paused bool)
	Look    time.Duration

	mu     sync.Mutex // of Record, from Begin on
	paused bool       // OnPause was told
}

// ErrTaken ends a run whose record another process has changed.
var ErrTaken = errors.New("another control plane leads this operation by now; see 'sealift status', and run the command again to go on from here")

// Resume plans to go on with what the cluster knows.
func (r *Run) Resume(known record.Record) { r.Known, r.Record = &known, known }

// Begin writes the record of an operation that begins, or takes over that of one that is resumed.
func (r *Run) Begin(ctx context.Context) error {
	return r.Records.Change(ctx, func(all record.All) error {
		if r.Refuse != nil {
			if err := r.Refuse(all); err != nil {
				return err
			}
		}
		if r.Choose != nil {
			r.Known = all.Of(r.Record.Kind)
			if err := r.Choose(r.Known); err != nil {
				return err
			}
		}
		now, there := all[r.Record.Kind]
		if there != (r.Known != nil) || there && (now.ID != r.Known.ID || (now.Stage == "") != (r.Known.Stage == "")) {
			return ErrTaken
		}
		if there && now.ID == r.Record.ID && now.Stage != "" { // it may have come further since
			r.Record.Stage, r.Record.Nodes, r.Record.Params, r.Record.Paused = now.Stage, rested(now.Nodes), now.Params, now.Paused
		}
		if r.Record.Stage == "" { // if the leader is killed now, its record names the part that has begun
			r.Record.Stage = r.Stages[0].ID
		}
		r.Record.Leader, r.Record.Attempt, r.Record.Error = r.Own, now.Attempt+1, ""
		at := index(r.Stages, r.Record.Stage)
		r.Record.Waits = at >= 0 && r.Stages[at].Loose
		all[r.Record.Kind] = r.Record
		return nil
	})
}

// Lead begins, and goes through the stages: as steps of an operation in the journal of this host, which skips those that it has finished, or
// without a journal if operation is "".
func (r *Run) Lead(ctx context.Context, operation lifecycle.Operation, journal *lifecycle.Journal, observe func(lifecycle.Event)) (err error) {
	if err := r.Begin(ctx); err != nil {
		return err
	}
	defer func() {
		if r.Ended != nil && ctx.Err() == nil && !errors.Is(err, ErrTaken) {
			err = errors.Join(err, r.Ended())
		}
	}()
	defer func() { err = r.failed(ctx, err) }()
	if r.Begun != nil {
		if err := r.Begun(ctx); err != nil {
			return err
		}
	}
	if operation != "" {
		_, err := lifecycle.Run(ctx, operation, r.Plan(), journal, observe)
		return err
	}
	for _, s := range r.Stages {
		if err := r.Reach(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// noteTime bounds the write of a failure: the API may be what failed.
const noteTime = time.Minute

// failed notes what ended the run, unless that is a person or another leader.
func (r *Run) failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrTaken) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	return errors.Join(err, r.change(ctx, func(now record.Record) record.Record {
		now.Error = err.Error()
		return now
	}))
}

// Plan returns the stages as steps of a journal.
func (r *Run) Plan() (plan lifecycle.Plan) {
	for _, s := range r.Stages {
		plan = append(plan, lifecycle.Step{ID: s.ID, Phase: lifecycle.Outro, Title: s.Title, Timeout: s.Timeout, Inputs: r.Record.ID,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, r.Reach(ctx, s) }})
	}
	return plan
}

// rested forgets failures: the nodes begin again.
func rested(nodes map[string]record.Node) map[string]record.Node {
	out := map[string]record.Node{}
	for name, n := range nodes {
		if n.State != record.Failed {
			out[name] = n
		}
	}
	return out
}

// Reach brings all nodes that take part to a stage, unless another control plane has done so.
func (r *Run) Reach(ctx context.Context, s Stage) error {
	if past(r.Stages, r.Record, s.ID) {
		return nil
	}
	if r.Record.Stage != s.ID {
		if err := r.change(ctx, s.enter); err != nil {
			return err
		}
	}
	if s.Before != nil {
		if err := s.Before(ctx); err != nil {
			return err
		}
	}
	if s.Nodes != nil {
		if err := r.spread(ctx, s); err != nil {
			if s.Failed != nil {
				err = fmt.Errorf("%w%s", err, s.Failed(r.known()))
			}
			return err
		}
	}
	if s.After != nil {
		if err := s.After(ctx); err != nil {
			return err
		}
	}
	return r.leave(ctx, s)
}

// leave starts the next stage. At the end it removes the record, or keeps it for a person's decision.
func (r *Run) leave(ctx context.Context, s Stage) error {
	next := index(r.Stages, s.ID) + 1
	if next < len(r.Stages) {
		return r.change(ctx, r.Stages[next].enter)
	}
	if r.Vanishes {
		return nil
	}
	if r.Keeps || r.Stays {
		return r.change(ctx, func(now record.Record) record.Record {
			if now.Waits = r.Loose || r.Stays; r.Stays {
				now.Ended = time.Now().UTC()
			}
			return now.In("")
		})
	}
	return r.Records.Change(ctx, func(all record.All) error {
		if err := r.leads(all); err != nil {
			return err
		}
		delete(all, r.Record.Kind)
		return nil
	})
}

// Save replaces the params of the record.
func (r *Run) Save(ctx context.Context, params any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return r.change(ctx, func(now record.Record) record.Record {
		now.Params = text
		return now
	})
}

// change edits the current record: a person may have paused it. It may be called concurrently.
func (r *Run) change(ctx context.Context, edit func(record.Record) record.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next record.Record
	err := r.Records.Change(ctx, func(all record.All) error {
		if err := r.leads(all); err != nil {
			return err
		}
		now := all[r.Record.Kind]
		next = edit(now)
		if now.Waits && !next.Waits && r.Refuse != nil { // another operation may have begun meanwhile
			if err := r.Refuse(all); err != nil {
				return err
			}
		}
		all[r.Record.Kind] = next
		return nil
	})
	if err == nil {
		r.Record = next
	}
	return err
}

func (r *Run) leads(all record.All) error {
	if now, there := all[r.Record.Kind]; !there || now.ID != r.Record.ID || now.Attempt != r.Record.Attempt {
		return ErrTaken
	}
	return nil
}

// known is this run's copy of the record.
func (r *Run) known() record.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Record
}
