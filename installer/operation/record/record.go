// Package record stores the unfinished operations of a cluster: one Record for each operation on all nodes. All of them are in one
// ConfigMap, so that any control plane can resume an operation, and nobody begins one that another excludes. Records have no secrets.
package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Record is one operation on all nodes of a cluster.
type Record struct {
	// ID names this run of the operation. A later one of the same kind has another.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Leader is the node whose command began the operation, or resumed it last.
	Leader string `json:"leader"`
	// Attempt counts the leaders: it shows an earlier one that it no longer leads.
	Attempt int       `json:"attempt"`
	Began   time.Time `json:"began"`
	// Params are the parameters with which the kind resumes.
	Params json.RawMessage `json:"params,omitempty"`
	// Stage is the one that nodes are brought to now. The stages before it are done. "" waits for a person to begin the next part.
	Stage string `json:"stage,omitempty"`
	// Nodes is the progress of nodes with Stage. A missing one has not begun.
	Nodes map[string]Node `json:"nodes,omitempty"`
	// Waits says that nothing is half done: nothing has changed yet, the end waits for a person, or the operation is over. It excludes
	// nothing then.
	Waits bool `json:"waits,omitempty"`
	// Paused lets no further node begin, in the stages that a person may pause.
	Paused bool `json:"paused,omitempty"`
	// Error is what ended the last run, if that failed.
	Error string `json:"error,omitempty"`
	// Ended is when the operation was over. Its Record stays for what undoes it. Zero for one that has not ended.
	Ended time.Time `json:"ended,omitzero"`
	// About is a sentence without its end for people, Next the command that resumes, and where it has to run.
	About string `json:"about"`
	Next  string `json:"next"`
}

// State is how far a node is with the stage of a Record.
type State string

// The states of a node. Waiting is the state of one that has not begun.
const (
	Waiting State = ""
	Working State = "working" // it was asked, or is about to be
	Done    State = "done"
	Failed  State = "failed"
)

// Node is one node in a stage.
type Node struct {
	State State  `json:"state,omitempty"`
	Error string `json:"error,omitempty"` // of a failure
}

// All are the Records of a cluster by their kinds: at most one of each.
type All map[string]Record

// Sorted are the Records in the order of their kinds.
func (a All) Sorted() []Record {
	return slices.SortedFunc(maps.Values(a), func(x, y Record) int { return cmp.Compare(x.Kind, y.Kind) })
}

// Of returns the Record of a kind; nil if there is none.
func (a All) Of(kind string) *Record {
	if r, there := a[kind]; there {
		return &r
	}
	return nil
}

// Decode reads the params of a Record into a value.
func (r Record) Decode(into any) error {
	if err := json.Unmarshal(r.Params, into); err != nil {
		return fmt.Errorf("the record of %s: %w", r.Kind, err)
	}
	return nil
}

// In returns the Record at the beginning of a stage.
func (r Record) In(stage string) Record {
	r.Stage, r.Nodes = stage, nil
	return r
}

// With returns the Record with the state of a node.
func (r Record) With(name string, n Node) Record {
	r.Nodes = maps.Clone(r.Nodes)
	if r.Nodes == nil {
		r.Nodes = map[string]Node{}
	}
	r.Nodes[name] = n
	return r
}
