package operation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
)

// leader is a process that leads. It is dead when it was killed: none of its actions has an effect any longer.
type leader struct {
	*world
	kind   int
	own    string
	run    *operation.Run
	cancel context.CancelCauseFunc
	dead   bool
	lost   bool // another one leads, and the next write shows that
	failed bool // a node has failed
	nested bool
}

// moment is one at which a leader may be killed, or replaced while it lives; and at which other things happen in the cluster.
func (l *leader) moment(writes ...bool) error {
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return errKilled
	}
	l.clock++
	replace, other := false, -1
	if r, there := l.all[record.Upgrade]; there && (r.Paused && l.random.IntN(3) == 0 || !r.Paused && l.random.IntN(60) == 0) {
		l.all = maps.Clone(l.all)
		r.Paused = !r.Paused
		l.all[record.Upgrade] = r
	}
	if !l.nested && l.budget > 0 {
		l.budget--
		if l.budget == 0 && l.replace && len(writes) == 0 {
			l.budget++ // later, in front of a write
		}
		if l.budget == 0 {
			replace = l.replace
			l.dead, l.lost = !replace, replace
			if l.dead {
				l.cancel(errKilled)
				l.mu.Unlock()
				return errKilled
			}
		}
		switch l.random.IntN(40) {
		case 0:
			if len(l.members) < 5 {
				l.join(l.random.IntN(2) == 0)
			}
		case 1, 2:
			other = l.random.IntN(len(kinds))
		}
		for _, m := range l.members { // agents continue when a leader is gone
			if m.works != "" && m.stage != nil && l.random.IntN(10) == 0 {
				m.stage()
			}
		}
	}
	l.mu.Unlock()
	if other >= 0 && kinds[other].name != kinds[l.kind].name {
		l.ask(other)
	}
	if replace {
		excluded := (*exclusion.Error)(nil)
		if _, err := l.world.lead(l.kind, true); err != nil && !errors.As(err, &excluded) {
			l.failf("%s was not resumed by another control plane: %v", kinds[l.kind].name, err)
		}
	}
	return nil
}

func (w *world) join(controlPlane bool) {
	name := fmt.Sprint("node-", len(w.members))
	m := &member{Node: cluster.Node{Name: name, Ready: true}, joined: w.clock, reached: map[string]int{}}
	if controlPlane || len(w.members) == 0 {
		m.Roles = []string{"control-plane"}
	}
	w.members[name] = m
}

// ask is another operation that a person requests in the meantime. It begins if nothing excludes it, and is led to its end later.
func (w *world) ask(kind int) {
	l := &leader{world: w, kind: kind, nested: true, own: "node-0"}
	w.mu.Lock()
	_, there := w.all[kinds[kind].name]
	w.mu.Unlock()
	if there {
		return
	}
	run := w.plan(l, nil)
	err := run.Begin(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	_, there = w.all[kinds[kind].name]
	excluded := (*exclusion.Error)(nil)
	if err != nil && !errors.As(err, &excluded) && !(there && errors.Is(err, operation.ErrTaken)) { // another person asked at this moment
		w.failf("%s is asked for: %v", kinds[kind].name, err)
	}
	if err == nil {
		w.waiting = append(w.waiting, kinds[kind].name)
	}
}

// Read implements operation.Records.
func (l *leader) Read(context.Context) (record.All, error) {
	err := l.moment()
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.all), err
}

// Change implements operation.Records.
func (l *leader) Change(ctx context.Context, change func(record.All) error) error {
	if err := l.moment(true); err != nil {
		return err
	}
	l.mu.Lock()
	all := maps.Clone(l.all)
	err := change(all)
	if err == nil && ctx.Err() == nil {
		l.all = all
	}
	l.mu.Unlock()
	return errors.Join(err, ctx.Err(), l.moment())
}

// List implements operation.Nodes.
func (l *leader) List(context.Context) (nodes []cluster.Node, err error) {
	if err := l.moment(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.members)) {
		nodes = append(nodes, l.members[name].Node)
	}
	l.listed[l.run.Record.ID+l.run.Record.Stage] = l.clock
	return nodes, nil
}

// Apply implements operation.Nodes.
func (l *leader) Apply(_ context.Context, name string, r operation.Request) error {
	if err := l.moment(); err != nil {
		return err
	}
	if err := l.begins(name, r); err != nil {
		return err
	}
	if err := l.moment(); err != nil {
		return err // its agent continues
	}
	l.mu.Lock()
	if m := l.members[name]; m.works == r.ID+r.Stage {
		m.stage()
	}
	l.mu.Unlock()
	return l.moment()
}

func (l *leader) begins(name string, r operation.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return errLost
	}
	m, number := l.members[name], l.number(r.Stage)
	l.barrier(r.ID, number)
	if m.reached[r.ID] > number+1 {
		l.failf("%s goes back to %s", name, r.Stage)
	}
	if l.budget > 0 && !l.nested && l.random.IntN(60) == 0 {
		l.failed = true
		return fmt.Errorf("node %s: failed", name)
	}
	m.works = r.ID + r.Stage
	m.stage = func() { m.works, m.stage, m.reached[r.ID] = "", nil, max(m.reached[r.ID], number+1) }
	work := 0
	for _, o := range l.members {
		if o.works == m.works {
			work++
		}
	}
	if most := l.stages()[number].AtOnce; most > 0 && work > most {
		l.failf("%d nodes are at work on %s, more than %d", work, r.Stage, most)
	}
	return nil
}

func (l *leader) stages() []operation.Stage {
	nothing := func(string) func(context.Context) error { return nil }
	return kinds[l.kind].stages(actions{nothing, nothing})
}

func (l *leader) number(id string) int {
	return slices.IndexFunc(l.stages(), func(s operation.Stage) bool { return s.ID == id })
}

// barrier checks that every node has ended the stages before one, unless it has joined since.
func (l *leader) barrier(id string, number int) {
	if l.begun[id] > number+1 {
		l.failf("%s goes back from stage %d to %d", kinds[l.kind].name, l.begun[id]-1, number)
	}
	if l.begun[id] == number+1 {
		return
	}
	l.begun[id] = number + 1
	for n, s := range l.stages()[:number] {
		if s.Nodes == nil {
			continue
		}
		for _, m := range l.members {
			if s.Nodes(m.Node) && m.reached[id] < n+1 && m.joined <= l.listed[id+s.ID] {
				l.failf("%s begins with stage %d of %s while %s has not ended stage %d", l.own, number, kinds[l.kind].name, m.Name, n)
			}
		}
	}
}

// acts creates the leader's own actions.
func (l *leader) acts(stage string) func(context.Context) error {
	return func(context.Context) error {
		if err := l.moment(); err != nil {
			return err
		}
		l.mu.Lock()
		l.barrier(l.run.Record.ID, l.number(stage))
		l.mu.Unlock()
		return l.moment()
	}
}

// plan creates the run of a kind as a command does: it resumes a recorded one, or begins.
func (w *world) plan(l *leader, known *record.Record) *operation.Run {
	k := kinds[l.kind]
	stages := k.stages(actions{l.acts, l.acts})
	r := &operation.Run{Stages: stages, Own: l.own, Records: l, Nodes: l, Look: time.Millisecond, Refuse: func(all record.All) error {
		return exclusion.Refuse(exclusion.OfKind(k.name), exclusion.UnderWay(all))
	}}
	if k.waits > 0 {
		r.Stages, r.Keeps, r.Loose = stages[:k.waits], true, k.name == record.LoadBalancer
	}
	w.mu.Lock()
	w.runs++
	r.Record = record.Record{ID: fmt.Sprint(k.name, w.runs, "/"), Kind: k.name}
	w.last[r.Record.ID] = len(stages)
	w.mu.Unlock()
	if known != nil {
		r.Resume(*known)
		finish := k.waits > 0 && (known.Stage == "" || slices.IndexFunc(stages, func(s operation.Stage) bool { return s.ID == known.Stage }) >= k.waits)
		if finish {
			r.Stages, r.Keeps = stages[k.waits:], false
			for n := range r.Stages {
				r.Stages[n].Loose = r.Loose
			}
		}
	}
	l.run = r
	return r
}
