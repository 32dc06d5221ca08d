package operation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
)

// actions make what a leader does by itself in a stage.
type actions struct {
	before, after func(stage string) func(context.Context) error
}

// kinds are the operations of the model. Those of a cluster have these stages: see their packages.
var kinds = []struct {
	name   string
	stages func(do actions) []operation.Stage
	// waits is the number of stages after which a person decides; 0 for none.
	waits int
}{
	{record.Images, func(actions) []operation.Stage {
		return []operation.Stage{{ID: "images/load", Nodes: operation.Everyone, AtOnce: 4, Tolerant: true}}
	}, 0},
	{record.LoadBalancer, func(do actions) []operation.Stage {
		return []operation.Stage{
			{ID: "record", Before: do.before("record")},
			{ID: "beside", Nodes: operation.Everyone, AtOnce: 1},
			{ID: "switch", Nodes: operation.Everyone, AtOnce: 1},
			{ID: "cluster", Before: do.before("cluster")},
			{ID: "moved", Nodes: operation.Everyone, AtOnce: 1},
			{ID: "alone", Nodes: operation.Everyone, AtOnce: 1, After: do.after("alone")},
			{ID: "done"},
		}
	}, 5},
	{record.Keys, func(do actions) []operation.Stage {
		return []operation.Stage{
			{ID: "read", Before: do.before("read"), Nodes: operation.ControlPlanes, After: do.after("read")},
			{ID: "write", Before: do.before("write"), Nodes: operation.ControlPlanes},
			{ID: "rewrite", Before: do.before("rewrite")},
			{ID: "forget", Before: do.before("forget"), Nodes: operation.ControlPlanes},
		}
	}, 0},
	{record.CAs, func(do actions) []operation.Stage {
		return []operation.Stage{
			{ID: "record"},
			{ID: "trust", Before: do.before("trust"), Nodes: operation.Everyone, AtOnce: 1},
			{ID: "sign", Before: do.before("sign"), Nodes: operation.Everyone, AtOnce: 1, After: do.after("sign")},
			{ID: "tokens", Before: do.before("tokens")},
			{ID: "forget", Before: do.before("forget"), Nodes: operation.Everyone, AtOnce: 1},
			{ID: "done"},
		}
	}, 3},
	{record.Upgrade, func(do actions) []operation.Stage {
		return []operation.Stage{
			{ID: "prepare", Nodes: operation.Everyone, AtOnce: 4},
			{ID: "snapshot", Before: do.before("snapshot")},
			{ID: "control-planes", Nodes: operation.ControlPlanes, AtOnce: 1},
			{ID: "workers", Nodes: func(n cluster.Node) bool { return !n.ControlPlane() }, AtOnce: 2},
			{ID: "add-ons", Before: do.before("add-ons")},
		}
	}, 0},
	{"clock", clock, 0},
}

var (
	errKilled = errors.New("killed")
	errLost   = errors.New("the lease was lost")
)

// member is a node of the model.
type member struct {
	cluster.Node
	joined  int            // the moment
	reached map[string]int // by the operation's ID: one more than the number of the stage
	works   string         // on this request; "" at rest
	stage   func()         // ends it
}

// world is a cluster in memory.
type world struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand

	mu      sync.Mutex
	all     record.All
	members map[string]*member
	clock   int            // moments so far
	listed  map[string]int // by stage: the moment of the last look at the nodes
	begun   map[string]int // by ID: one more than the number of the newest stage
	last    map[string]int // by ID: one more than the number of the last stage
	waiting []string       // kinds that began beside another
	runs    int
	budget  int // moments until the next leader is killed; 0 for none
	replace bool
}

func (w *world) failf(format string, a ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d, moment %d: %s", w.seed, w.clock, fmt.Sprintf(format, a...))
}

// leader is a process that leads. It is dead when it was killed: nothing that it does has an effect any more.
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
		for _, m := range l.members { // agents go on when a leader is gone
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

// ask is another operation that a person asks for meanwhile. It begins if nothing excludes it, and is led to its end later.
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
	excluded := (*exclusion.Error)(nil)
	if err != nil && !errors.As(err, &excluded) {
		w.failf("%s is asked for: %v", kinds[kind].name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.waiting = append(w.waiting, kinds[kind].name)
	}
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
		return err // its agent goes on
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

// barrier wants every node to have ended the stages before one, unless it has joined since.
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

// acts makes what the leader does by itself.
func (l *leader) acts(string) func(stage string) func(context.Context) error {
	return func(stage string) func(context.Context) error {
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
}

// plan makes the run of a kind as a command does: it resumes what the cluster knows, or begins.
func (w *world) plan(l *leader, known *record.Record) *operation.Run {
	k := kinds[l.kind]
	stages := k.stages(actions{l.acts("before"), l.acts("after")})
	r := &operation.Run{Stages: stages, Own: l.own, Records: l, Nodes: l, Refuse: func(all record.All) error {
		return exclusion.Refuse(exclusion.OfKind(k.name), exclusion.UnderWay(all))
	}}
	if k.waits > 0 {
		r.Stages, r.Keeps = stages[:k.waits], true
	}
	w.mu.Lock()
	w.runs++
	r.Record = record.Record{ID: fmt.Sprint(k.name, w.runs, "/"), Kind: k.name}
	w.last[r.Record.ID] = len(stages)
	w.mu.Unlock()
	if known != nil {
		r.Resume(*known)
		finish := k.waits > 0 && (known.Waits || slices.IndexFunc(stages, func(s operation.Stage) bool { return s.ID == known.Stage }) >= k.waits)
		if finish {
			r.Stages, r.Keeps = stages[k.waits:], false
		}
	}
	l.run = r
	return r
}

// lead runs a kind on a control plane until it ends or is killed.
func (w *world) lead(kind int, nested bool) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	l := &leader{world: w, kind: kind, cancel: cancel, nested: nested}
	w.mu.Lock()
	var planes []string
	for _, m := range w.members {
		if m.ControlPlane() {
			planes = append(planes, m.Name)
		}
	}
	slices.Sort(planes)
	l.own = planes[w.random.IntN(len(planes))]
	known, there := w.all[kinds[kind].name]
	w.mu.Unlock()
	var run *operation.Run
	if there {
		run = w.plan(l, &known)
	} else {
		run = w.plan(l, nil)
	}
	err = run.Begin(ctx)
	for _, s := range run.Stages {
		if err == nil {
			err = run.Reach(ctx, s)
		}
	}
	switch {
	case err == nil:
		return run.Keeps, nil
	case l.dead || l.lost || l.failed || errors.Is(err, operation.ErrTaken):
		return true, nil
	}
	return false, err
}

// end leads a kind until nothing of it is left.
func (w *world) end(kind, kills int) {
	for n := 0; ; n++ {
		if n == 60 {
			w.failf("%s does not end", kinds[kind].name)
			return
		}
		w.budget, w.replace = 0, w.random.IntN(4) == 0
		if n < kills {
			w.budget = 1 + w.random.IntN(120)
		}
		again, err := w.lead(kind, false)
		excluded := (*exclusion.Error)(nil)
		if errors.As(err, &excluded) && len(w.waiting) > 0 { // it ends after what has begun meanwhile
			w.waiting = append(w.waiting, kinds[kind].name)
			return
		}
		if err != nil {
			w.failf("%s: %v", kinds[kind].name, err)
			return
		}
		if _, there := w.all[kinds[kind].name]; !again && !there {
			return
		}
	}
}

// TestOperationsEndWheneverTheirLeaderIsKilled kills any operation at any moment on one to five nodes, or has another control plane take
// it over while its leader lives. Other operations are asked for meanwhile, nodes join and fail.
func TestOperationsEndWheneverTheirLeaderIsKilled(t *testing.T) {
	t.Parallel()
	const seeds, shards = 10_000, 4
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(shard); seed < seeds && !t.Failed(); seed += shards {
				live(t, seed)
			}
		})
	}
}

func live(t *testing.T, seed uint64) {
	t.Helper()
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 40)), all: record.All{}, members: map[string]*member{}, listed: map[string]int{}, begun: map[string]int{}, last: map[string]int{}}
	for n := range 1 + w.random.IntN(5) {
		w.join(n == 0 || w.random.IntN(2) == 0)
	}
	w.end(w.random.IntN(len(kinds)), w.random.IntN(5))
	for len(w.waiting) > 0 && !t.Failed() {
		name := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.end(slices.IndexFunc(kinds, func(k struct {
			name   string
			stages func(do actions) []operation.Stage
			waits  int
		}) bool {
			return k.name == name
		}), w.random.IntN(2))
	}
	if len(w.all) > 0 {
		w.failf("left: %v", w.all)
	}
	for id, begun := range w.begun {
		if begun != w.last[id] && begun < w.last[id]-1 {
			w.failf("%s ended at stage %d of %d", id, begun, w.last[id])
		}
	}
	_ = time.Now
}
