package operation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
)

// actions creates a leader's own actions in a stage.
type actions struct {
	before, after func(stage string) func(context.Context) error
}

// kind is an operation of the model.
type kind struct {
	name   string
	stages func(do actions) []operation.Stage
	// waits is the number of stages after which a person decides; 0 for none.
	waits int
}

// kinds are the operations of the model. Those of a cluster have these stages: see their packages.
var kinds = []kind{
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
			{ID: "prepare", Nodes: operation.Everyone, AtOnce: 4, Loose: true},
			{ID: "snapshot", Before: do.before("snapshot"), Loose: true},
			{ID: "control-planes", Nodes: operation.ControlPlanes, AtOnce: 1, Pauses: true},
			{ID: "workers", Nodes: func(n cluster.Node) bool { return !n.ControlPlane() }, AtOnce: 2, Pauses: true},
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
	listed  map[string]int // by stage: the moment of the last read of the nodes
	begun   map[string]int // by ID: one more than the number of the newest stage
	last    map[string]int // by ID: one more than the number of the last stage
	waiting []string       // kinds that began concurrently with another
	runs    int
	budget  int // moments until the next leader is killed; 0 for none
	replace bool
}

func (w *world) failf(format string, a ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d, moment %d: %s", w.seed, w.clock, fmt.Sprintf(format, a...))
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
		if errors.As(err, &excluded) && len(w.waiting) > 0 { // it ends after newer ones
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
// it over while its leader lives. Other operations are requested in the meantime, nodes join and fail.
func TestOperationsEndWheneverTheirLeaderIsKilled(t *testing.T) {
	t.Parallel()
	const seeds, shards = 10_000, 4
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
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
		w.end(slices.IndexFunc(kinds, func(k kind) bool { return k.name == name }), w.random.IntN(2))
	}
	if len(w.all) > 0 {
		w.failf("left: %v", w.all)
	}
	for id, begun := range w.begun {
		if begun < w.last[id]-1 { // the last stage of some has no nodes
			w.failf("%s ended at stage %d of %d", id, begun, w.last[id])
		}
	}
}
