// Package lifecycle runs a plan of steps on a node so that it may be killed at any moment: each step is recorded durably
// when it starts and when it ends, and is skipped the next time while its inputs are the same.
//
// The package knows order, records and time. What a step does is the caller's.
package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Phase is when a step runs.
type Phase string

// The phases, in their order.
const (
	PreInit  Phase = "pre-init"
	Install  Phase = "install"
	Join     Phase = "join"
	PostInit Phase = "post-init"
	Outro    Phase = "outro"
	// Prepare, Upgrade and Kubelet are those of an upgrade, before its add-ons: deliver files and images without affecting running
	// programs; let kubeadm change the node; replace the kubelet and the container runtime.
	Prepare Phase = "prepare"
	Upgrade Phase = "upgrade"
	Kubelet Phase = "kubelet"
	// Reset reverts everything.
	Reset Phase = "reset"
	// Restore brings a control plane back that lost its data.
	Restore Phase = "restore"
	// Readdress changes the address of the node.
	Readdress Phase = "readdress"
)

// State is what a step leaves in memory for later steps, such as the shell variables that a hook set. It is kept in the
// journal, and given to Restore when the step is skipped.
type State map[string]string

// Step is one change to the node.
type Step struct {
	ID    string `json:"id"` // unique in the plan, such as flannel/install
	Phase Phase  `json:"phase"`
	AddOn string `json:"addOn,omitempty"`
	Title string `json:"title"` // for people
	// Inputs is a digest of everything that the step's result depends on; see Digest.
	Inputs string `json:"inputs"`
	// Options is a digest of the add-on's options in the Installer, which Inputs covers too. It reports whether the options
	// changed or only the package; "" for a step without an add-on or options.
	Options string `json:"options,omitempty"`
	// Again repeats the step although the journal has it as finished, because its result has been changed.
	Again bool `json:"again,omitempty"`
	// Beside lets the steps that follow begin before this one is finished; see Run.
	Beside bool `json:"beside,omitempty"`
	// After are the earlier steps which Beside lets this one overtake, but which must be finished before it begins.
	After []string `json:"after,omitempty"`
	// AfterPart are such steps, of which only the first part must be done: until they call Enough.
	AfterPart []string `json:"afterPart,omitempty"`
	// Timeout bounds the step on a fast host; a slow one gets longer, see package speed. Fixed means the same everywhere.
	Timeout time.Duration                        `json:"-"`
	Fixed   bool                                 `json:"-"`
	Run     func(context.Context) (State, error) `json:"-"`
	// Restore puts a finished step's state back; nil if it has none.
	Restore func(context.Context, State) error `json:"-"`
}

// Plan is what an install will do, in order.
type Plan []Step

// In returns the steps of some phases, in the order of the plan.
func (p Plan) In(phases ...Phase) Plan {
	return slices.DeleteFunc(slices.Clone(p), func(s Step) bool { return !slices.Contains(phases, s.Phase) })
}

// check finds a step that waits for one that does not precede it, which would never happen.
func (p Plan) check() error {
	earlier := make(map[string]bool)
	for _, step := range p {
		for _, id := range slices.Concat(step.After, step.AfterPart) {
			if !earlier[id] {
				return fmt.Errorf("step %s comes after %s, which is not before it in the plan", step.ID, id)
			}
		}
		earlier[step.ID] = true
	}
	return nil
}

// Digest is the inputs hash of a step: sha256 over the JSON of its parts.
func Digest(parts ...any) string {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	for _, part := range parts {
		if err := enc.Encode(part); err != nil { // only data made of strings, numbers and maps is passed
			panic(fmt.Sprintf("digest of %T: %v", part, err))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Pending returns the unfinished steps.
func (p Plan) Pending(j *Journal) Plan {
	var pending Plan
	for _, step := range p {
		if _, done := j.Finished(step); !done {
			pending = append(pending, step)
		}
	}
	return pending
}
