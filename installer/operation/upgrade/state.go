package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/record"
)

// Stage is the progress of a node.
type Stage string

// The stages of a node, in their order.
const (
	Waiting  Stage = ""
	Prepared Stage = "prepared" // it has all files and images
	Upgraded Stage = "upgraded" // kubeadm has changed it
	Done     Stage = "done"     // it runs the new version, and takes pods
)

// Node is one node in an upgrade.
type Node struct {
	Stage Stage `json:"stage,omitempty"`
	// Error is why the node stopped. The record has it, not the params.
	Error string `json:"error,omitempty"`
	// Away is how long the node took no new pods, Took how long all of its upgrade took without the preparation: seconds.
	Away float64 `json:"away,omitempty"`
	Took float64 `json:"took,omitempty"`
}

// Phase is the progress of an upgrade as a whole.
type Phase string

// The phases, in their order.
const (
	Preparing Phase = "preparing" // files and images on all nodes
	Nodes     Phase = "nodes"     // in sequence
	AddOns    Phase = "add-ons"
	Finished  Phase = "finished"
)

// State is how far an upgrade is. The params of its record are a State without what the record itself has.
type State struct {
	Upgrade string `json:"upgrade,omitempty"` // identifies the bundle and the Installer: the record's ID
	// Whole identifies the upgrade with all its stops. Each stop has a separate record. "" if an older sealift wrote it.
	Whole   string           `json:"whole,omitempty"`
	From    string           `json:"from"` // versions of Kubernetes
	To      string           `json:"to"`
	Leader  string           `json:"leader,omitempty"` // the node that leads
	Began   time.Time        `json:"began,omitzero"`
	Ended   time.Time        `json:"ended,omitzero"`
	Phase   Phase            `json:"phase,omitempty"`
	Error   string           `json:"error,omitempty"` // that ended the last run
	Changes []install.Change `json:"changes"`
	// KeepPods means that pods stay on their nodes: nothing changes that they run on.
	KeepPods bool   `json:"stay,omitempty"`
	Snapshot string `json:"snapshot,omitempty"` // of etcd, taken before the first change: a file on SnapshotOn
	// SnapshotOn is the node that has the file.
	SnapshotOn string           `json:"snapshotOn,omitempty"`
	Nodes      map[string]*Node `json:"nodes"`
}

// The stages, in their order.
const (
	prepareStage       = "upgrade/prepare"
	snapshotStage      = "upgrade/snapshot"
	controlPlanesStage = "upgrade/control-planes"
	workersStage       = "upgrade/workers"
	addOnsStage        = "upgrade/add-ons"
)

// phases maps stages to phases. A record without a stage has ended.
var phases = map[string]Phase{
	prepareStage: Preparing, snapshotStage: Preparing, controlPlanesStage: Nodes, workersStage: Nodes, addOnsStage: AddOns, "": Finished,
}

// stateOf reads a record; nil is the zero State.
func stateOf(r *record.Record) (s State, err error) {
	if r == nil {
		return s, nil
	}
	if err := r.Decode(&s); err != nil {
		return s, err
	}
	phase, known := phases[r.Stage]
	if !known {
		return s, fmt.Errorf("the upgrade is at %q, which this sealift does not know; a newer one may", r.Stage)
	}
	s.Upgrade, s.Leader, s.Began, s.Ended, s.Error, s.Phase = r.ID, r.Leader, r.Began, r.Ended, r.Error, phase
	for name, n := range s.Nodes {
		n.Error = ""
		if s.Phase == Nodes { // those of the preparation have not changed
			n.Error = r.Nodes[name].Error
		}
	}
	return s, nil
}

// params returns what the record of the upgrade does not have itself.
func (s State) params() State {
	s.Upgrade, s.Leader, s.Began, s.Ended, s.Error, s.Phase = "", "", time.Time{}, time.Time{}, "", ""
	return s
}

// untouched reports that the upgrade has changed no node yet. A later stop has the snapshot of the first one.
func (s State) untouched() bool { return s.Phase == Preparing && s.Snapshot == "" }

// after is the state with which a run begins that has planned s, if last is the state in the cluster. A later stop keeps the snapshot of
// the first one: its leader may be another node, and a current snapshot would be of an intermediate version.
func (s State) after(last State) (State, error) {
	switch {
	case last.Phase == "", last.Phase == Finished, last.untouched() && last.Upgrade != s.Upgrade:
		if last.Whole == s.Whole {
			s.Snapshot, s.SnapshotOn = last.Snapshot, last.SnapshotOn
		}
		return s, nil
	case last.Upgrade != s.Upgrade:
		return last, fmt.Errorf("an upgrade from Kubernetes %s to %s is not finished (at %s); finish it with its own bundle and Installer first",
			last.From, last.To, last.Phase)
	}
	return last, nil
}

// of gives the state an entry for each of these nodes, and for no other: some may have joined or left.
func (s *State) of(names []string) {
	nodes := map[string]*Node{}
	for _, name := range names {
		if nodes[name] = s.Nodes[name]; nodes[name] == nil {
			nodes[name] = &Node{}
		}
	}
	s.Nodes = nodes
}

// ErrNone means that the cluster was never upgraded by this command.
var ErrNone = errors.New("no upgrade was begun in this cluster")

// Read returns the state of the newest upgrade of a cluster, and whether it is to pause. It is ErrNone where there was none.
func Read(ctx context.Context, client kubernetes.Interface) (s State, paused bool, err error) {
	all, err := record.Store{Client: client}.Read(ctx)
	if err != nil {
		return s, false, err
	}
	r := all.Of(record.Upgrade)
	if r == nil {
		return s, false, ErrNone
	}
	s, err = stateOf(r)
	return s, r.Paused, err
}

// forgetRecords removes records.
func forgetRecords(ctx context.Context, records operation.Records, kinds ...string) error {
	return records.Change(ctx, func(all record.All) error {
		for _, kind := range kinds {
			delete(all, kind)
		}
		return nil
	})
}

// SetPaused sets whether no further node begins. Running ones continue. It is ErrNone where no upgrade is under way.
func SetPaused(ctx context.Context, client kubernetes.Interface, paused bool) error {
	return record.Store{Client: client}.Change(ctx, func(all record.All) error {
		r, there := all[record.Upgrade]
		if !there || r.Stage == "" {
			return ErrNone
		}
		r.Paused = paused
		all[record.Upgrade] = r
		return nil
	})
}
