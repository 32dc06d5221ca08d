package operation

import (
	"context"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/rollout"
)

// Stage is a part of an operation. No node begins a stage before all participating nodes have ended the one before.
type Stage struct {
	ID    string // in the record, in requests to nodes, and in the journal of the leader
	Title string
	// Timeout bounds the stage for all nodes together.
	Timeout time.Duration
	// Before and After are the leader's own actions, before the first node begins and after the last one has ended; nil is nothing.
	// Both may be repeated.
	Before, After func(context.Context) error
	// Nodes selects the participants, including those that join in the meantime; nil is none.
	Nodes func(cluster.Node) bool
	// AtOnce is how many nodes may work at the same time; 0 means no limit.
	AtOnce int
	// Tolerant continues with the other nodes when one has failed. The stage fails at its end.
	Tolerant bool
	// Loose says that nothing is half done during the stage: it excludes nothing.
	Loose bool
	// Pauses lets a person pause the stage: no further node begins then.
	Pauses bool
	// Failed describes the progress of the other nodes when the stage has failed; nil says nothing.
	Failed func(r record.Record) string
}

// enter returns a record at the beginning of the stage.
func (s Stage) enter(r record.Record) record.Record {
	r.Waits = s.Loose
	return r.In(s.ID)
}

// Everyone selects all nodes.
func Everyone(cluster.Node) bool { return true }

// ControlPlanes selects control planes.
func ControlPlanes(n cluster.Node) bool { return n.ControlPlane() }

// past reports whether a Record has gone beyond a stage.
func past(stages []Stage, r record.Record, id string) bool {
	return index(stages, r.Stage) > index(stages, id)
}

func index(stages []Stage, id string) int {
	return slices.IndexFunc(stages, func(s Stage) bool { return s.ID == id })
}

// decide finds the nodes of a stage that are asked now. asked are those that this leader waits for. The node of the leader begins, then
// the other control planes, then the workers. Nodes that were working when an earlier leader was killed come first: they may still be. paused reports that others wait until a person resumes.
func decide(s Stage, nodes []cluster.Node, r record.Record, own string, asked map[string]bool) (ask []string, paused bool, err error) {
	wave := rollout.Wave{Name: s.ID, AtOnce: rollout.Amount{Value: s.AtOnce}, Mandatory: !s.Tolerant}
	if s.Tolerant {
		wave.MaxFailures = rollout.Amount{Value: 100, Percent: true}
	}
	var targets []rollout.Target
	for _, n := range nodes {
		state := r.Nodes[n.Name].State
		if !s.Nodes(n) && !asked[n.Name] {
			continue
		}
		t := rollout.Target{Name: n.Name, Order: rank(n, own), Status: rollout.Waiting}
		switch state {
		case record.Working:
			t.Status = rollout.Working
			if !asked[n.Name] {
				ask = append(ask, n.Name)
			}
		case record.Done:
			t.Status = rollout.Succeeded
		case record.Failed:
			// Without a deadline, a rollout lets a failed target keep its slot. A node that has reported its failure is idle.
			t.Status = rollout.TimedOut
		}
		targets = append(targets, t)
	}
	result, err := rollout.Decide(rollout.Spec{Change: r.ID, Paused: s.Pauses && r.Paused, Waves: []rollout.Wave{wave}}, targets, rollout.State{}, time.Time{})
	return append(ask, result.With(rollout.Start)...), result.Phase == rollout.Paused, err
}

// InOrder returns nodes in the order in which they begin: the one that leads, the other control planes, the workers.
func InOrder(nodes []cluster.Node, own string) []cluster.Node {
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b cluster.Node) int { return rank(a, own) - rank(b, own) })
}

// rank is the index of a node in the order in which nodes begin.
func rank(n cluster.Node, own string) int {
	switch {
	case n.Name == own:
		return 0
	case n.ControlPlane():
		return 1
	}
	return 2
}
