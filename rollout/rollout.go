// Package rollout decides which targets of a change start now, and which wait. A target is changed as a unit: a node of a
// cluster, a cluster of a fleet.
//
// Decide is a pure function. The caller observes its targets, calls Decide with the time, stores Result.State, and then acts.
// The package has no client, no clock, and no goroutines, so the same input has the same result on every machine. A caller that
// is killed at any moment calls Decide again and continues.
//
// # Rules
//
// A Spec has waves. They run in order. A wave starts when every wave before it is complete.
//
//   - A wave is complete when each of its targets is done, skipped, or failed within MaxFailures.
//   - At most AtOnce targets are in progress. A target is in progress from its start until it is done, including its soak. A
//     failed target is in progress until its deadline, because it may still recover.
//   - More than MaxFailures failed targets stop the rollout: nothing new starts in any wave. Targets in progress continue.
//   - A target that takes longer than Deadline has timed out. It counts as failed and no longer holds a slot.
//   - A target is done when it has been successful for Soak.
//   - Targets start by Order, then by name.
//   - A target that is held does not start. It holds no slot, but later waves wait for it.
//   - A target that is asleep is not in progress and holds up no wave. Its deadline and its soak count only time awake.
//   - A target to which changes are carried starts while it is asleep.
//   - A mandatory wave tolerates no failure. While one of its targets sleeps, it is complete only if another succeeded.
//
// Store Result.State before you act on the result, at least if MustStore says so. Then a caller that is killed in between
// repeats the same starts, and never more than AtOnce targets are in progress.
package rollout

import (
	"errors"
	"fmt"
	"time"
)

// Spec configures how a change reaches its targets. The zero value has no waves; add at least one.
type Spec struct {
	// Change identifies the change, for example by a digest. A new Change begins a new rollout: the State of the old one
	// no longer counts.
	Change string
	Waves  []Wave
	// Soak is how long a target must stay successful before it is done.
	Soak time.Duration
	// Deadline limits the time from a target's start to its success. nil means no limit.
	Deadline *time.Duration
	// Paused keeps new targets from starting.
	Paused bool
}

// Wave is a group of targets that may be in progress together.
type Wave struct {
	// Name appears in results only.
	Name string
	// AtOnce limits how many targets are in progress, here and in all other waves together. A percentage refers to the targets of
	// this wave and means at least one. Zero means no limit.
	AtOnce Amount
	// MaxFailures is how many targets of this wave may fail. A percentage refers to the targets of this wave.
	MaxFailures Amount
	// Mandatory waves tolerate no failure, regardless of MaxFailures.
	Mandatory bool
}

// Status is the progress of a target with the current change.
type Status string

// The first six are observed and reported. Soaking is reported only.
const (
	Waiting   Status = "Waiting"   // it does not have the change
	Working   Status = "Working"   // it has the change and is not yet successful
	Failed    Status = "Failed"    // it reports a failure, from which it may recover
	Succeeded Status = "Succeeded" // it is successful
	TimedOut  Status = "TimedOut"  // it was Working or Failed for longer than the deadline
	Skipped   Status = "Skipped"   // it is left out
	Soaking   Status = "Soaking"   // it is successful, and its soak is not over
)

// Target is the observed state of one target.
type Target struct {
	Name string
	// Wave is the index of the target's wave.
	Wave int
	// Order sorts the targets of a wave; names sort those of equal order. Lower ones start first.
	Order int
	// Status is the observed status. Use any status but Soaking.
	Status Status
	// Since is when the target reached its status. If it is zero or in the future, Decide uses the time when it first saw this
	// status.
	Since time.Time
	// Occasional targets are not always in contact. Only their time in contact counts.
	Occasional bool
	// Asleep means that an occasional target is out of contact.
	Asleep bool
	// LastSeen is when an asleep target was last in contact.
	LastSeen time.Time
	// Held means that the target waits for something outside of the rollout. It does not start, and holds no slot.
	Held bool
	// Carried targets are always asleep, and get a change without being awake: it is carried to them. They start when their
	// wave does, or later, and hold no slot. Their contact is the time from one LastSeen to another.
	Carried bool
}

// Action is what the caller should do with a target now.
type Action string

const (
	// Start applies the change to the target. It is repeated until the target is observed to have the change.
	Start Action = "Start"
	// Wait leaves the target without the change.
	Wait Action = "Wait"
	// Keep leaves the target unchanged: in progress, done, skipped or timed out.
	Keep Action = "Keep"
)

// Reason is why a target waits.
type Reason string

// Why a target waits.
const (
	WaitsForWave   Reason = "Wave"   // an earlier wave is not complete
	WaitsForSlot   Reason = "Slot"   // AtOnce targets are in progress
	WaitsForRepair Reason = "Repair" // too many targets failed
	WaitsForResume Reason = "Resume" // the rollout is paused
	WaitsForWakeUp Reason = "WakeUp" // the target is asleep
	WaitsForOthers Reason = "Others" // the target is held
)

// Decision is the answer for one target.
type Decision struct {
	Name   string `json:"name"`
	Wave   int    `json:"wave"`
	Status Status `json:"status"`
	Action Action `json:"action"`
	// Reason is set if Action is Wait.
	Reason Reason `json:"reason,omitempty"`
	// AtWork means that the target holds a slot.
	AtWork bool `json:"atWork,omitempty"`
	// Asleep means that it is out of contact.
	Asleep bool `json:"asleep,omitempty"`
	// Until is when the deadline or the soak of the target ends.
	Until time.Time `json:"until,omitzero"`
}

// Phase is the state of the whole rollout.
type Phase string

// The states of a rollout.
const (
	Progressing Phase = "Progressing" // targets are in progress or about to start
	Paused      Phase = "Paused"      // targets wait because of Spec.Paused
	Stopped     Phase = "Stopped"     // too many targets failed: nothing new starts
	Done        Phase = "Done"        // every target succeeded or was skipped
	Ended       Phase = "Ended"       // as Done, but tolerated failures or timeouts remain
)

// Result is the answer for all targets.
type Result struct {
	Phase Phase `json:"phase"`
	// Wave is the index of the wave that runs, or the number of waves if all are complete.
	Wave int `json:"wave"`
	// Targets has one decision for each target, sorted by Order, then by name.
	Targets []Decision `json:"targets"`
	// Again is the time from which Decide has another result for the same targets. Zero means: when a target changes.
	Again time.Time `json:"again,omitzero"`
	// State is the state for the next call of Decide.
	State State `json:"state"`
}

// With returns the names of the targets that have this action, in order.
func (r Result) With(action Action) []string {
	var names []string
	for _, d := range r.Targets {
		if d.Action == action {
			names = append(names, d.Name)
		}
	}
	return names
}

// MustStore reports whether the starts of the State differ from those that are stored. Any other State may be stored some seconds
// later: if it is lost, Decide finds the same again, with deadlines that end as much later.
func (r Result) MustStore(stored State) bool {
	if stored.Change != r.State.Change {
		stored = State{}
	}
	for _, d := range r.Targets {
		if d.Action != Keep && !r.State.Targets[d.Name].Started.Equal(stored.Targets[d.Name].Started) {
			return true
		}
	}
	return false
}

// check refuses impossible rollouts.
func check(spec Spec, targets []Target) error {
	var errs []error
	if spec.Soak < 0 || spec.Deadline != nil && *spec.Deadline < 0 {
		errs = append(errs, errors.New("soak and deadline of a rollout must not be negative"))
	}
	for i, w := range spec.Waves {
		if w.AtOnce.Value < 0 || w.MaxFailures.Value < 0 {
			errs = append(errs, fmt.Errorf("wave %d %q: amounts must not be negative", i, w.Name))
		}
	}
	seen := make(map[string]bool, len(targets))
	for _, t := range targets {
		switch t.Status {
		case Waiting, Working, Failed, Succeeded, TimedOut, Skipped:
		default:
			errs = append(errs, fmt.Errorf("target %q: %q is not an observable status", t.Name, t.Status))
		}
		if t.Wave < 0 || t.Wave >= len(spec.Waves) {
			errs = append(errs, fmt.Errorf("target %q: wave %d does not exist; there are %d", t.Name, t.Wave, len(spec.Waves)))
		}
		if seen[t.Name] {
			errs = append(errs, fmt.Errorf("target %q is listed twice", t.Name))
		}
		seen[t.Name] = true
	}
	return errors.Join(errs...)
}
