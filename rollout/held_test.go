package rollout_test

import (
	"testing"

	"github.com/sealift/sealift/rollout"
)

// TestHeldTargetDoesNotStart shows that a target that waits for something else does not start, holds no slot, and holds up the waves
// after its own.
func TestHeldTargetDoesNotStart(t *testing.T) {
	spec := rollout.Spec{Change: "1", Waves: []rollout.Wave{{Name: "first", AtOnce: rollout.Amount{Value: 1}}, {Name: "second"}}}
	targets := append(parse(t, 0, "a:Waiting b:Waiting"), parse(t, 1, "c:Waiting")...)
	decide := func(state rollout.State, want string) rollout.State {
		t.Helper()
		r, err := rollout.Decide(spec, targets, state, noon)
		if err != nil {
			t.Fatal(err)
		}
		if got := print(r); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		return r.State
	}
	targets[0].Held = true
	state := decide(rollout.State{}, "a:Wait/Others b:Start c:Wait/Wave")
	targets[1].Status = rollout.Succeeded
	state = decide(state, "a:Wait/Others b:Keep/Succeeded c:Wait/Wave")
	targets[0].Held = false
	state = decide(state, "a:Start b:Keep/Succeeded c:Wait/Wave")
	// it is held again before it has the change
	targets[0].Held = true
	state = decide(state, "a:Wait/Others b:Keep/Succeeded c:Wait/Wave")
	targets[0].Status, targets[0].Held = rollout.Succeeded, true // it keeps its version
	decide(state, "a:Keep/Succeeded b:Keep/Succeeded c:Start")
}
