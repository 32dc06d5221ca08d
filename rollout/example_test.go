package rollout_test

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sealift/sealift/rollout"
)

// An upgrade of nodes: control planes one by one, then workers two at a time. The first failure stops it.
func ExampleDecide_nodes() {
	spec := rollout.Spec{
		Change: "v1.36.3",
		Waves: []rollout.Wave{
			{Name: "control planes", AtOnce: rollout.Amount{Value: 1}},
			{Name: "workers", AtOnce: rollout.Amount{Value: 2}},
		},
		Soak:     30 * time.Second,
		Deadline: new(20 * time.Minute),
	}
	nodes := []rollout.Target{
		{Name: "cp-1", Wave: 0, Status: rollout.Waiting},
		{Name: "cp-2", Wave: 0, Status: rollout.Waiting},
		{Name: "worker-1", Wave: 1, Status: rollout.Waiting},
		{Name: "worker-2", Wave: 1, Status: rollout.Waiting},
		{Name: "worker-3", Wave: 1, Status: rollout.Waiting},
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var state rollout.State
	for round := 0; ; round++ {
		result, err := rollout.Decide(spec, nodes, state, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		state = result.State
		fmt.Println(now.Format("15:04"), result.Phase, result.With(rollout.Start))
		if result.Phase != rollout.Progressing {
			return
		}
		now = now.Add(5 * time.Minute)
		for i, d := range result.Targets {
			if d.Action == rollout.Start {
				nodes[i].Status, nodes[i].Since = rollout.Succeeded, now.Add(-time.Minute)
			}
		}
	}
	// Output:
	// 12:00 Progressing [cp-1]
	// 12:05 Progressing [cp-2]
	// 12:10 Progressing [worker-1 worker-2]
	// 12:15 Progressing [worker-3]
	// 12:20 Done []
}

// A rollout over clusters: a canary that must not fail, then a quarter of the others at a time. One may fail.
func ExampleDecide_fleet() {
	spec := rollout.Spec{
		Change: "sha256:5f1c",
		Waves: []rollout.Wave{
			{Name: "canary", Mandatory: true},
			{Name: "rest", AtOnce: rollout.Amount{Value: 25, Percent: true}, MaxFailures: rollout.Amount{Value: 1}},
		},
	}
	fleet := []rollout.Target{
		{Name: "test", Wave: 0, Status: rollout.Succeeded},
		{Name: "oslo", Wave: 1, Status: rollout.Waiting},
		{Name: "rome", Wave: 1, Status: rollout.Failed},
		{Name: "bern", Wave: 1, Status: rollout.Waiting},
		{Name: "kyiv", Wave: 1, Status: rollout.Waiting},
		{Name: "ship", Wave: 1, Status: rollout.Waiting, Occasional: true, Asleep: true},
	}
	result, err := rollout.Decide(spec, fleet, rollout.State{}, time.Unix(0, 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range result.Targets {
		fmt.Printf("%s: %s (%s)\n", d.Name, d.Action, cmp.Or(string(d.Reason), string(d.Status)))
	}
	// Output:
	// bern: Start (Working)
	// kyiv: Wait (Slot)
	// oslo: Wait (Slot)
	// rome: Keep (Failed)
	// ship: Wait (WakeUp)
	// test: Keep (Succeeded)
}

func ExampleParseAmount() {
	for _, text := range []string{"3", "25%", "1%", "none"} {
		amount, err := rollout.ParseAmount(text)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(amount, "of 10 are", amount.Of(10))
	}
	// Output:
	// 3 of 10 are 3
	// 25% of 10 are 3
	// 1% of 10 are 1
	// "none" is neither a number nor a percentage such as 25%
}
