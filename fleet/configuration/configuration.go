// Package configuration says which configuration an add-on has on each cluster, and when it gets a new one (O-11 to O-16,
// It is pure: a controller observes, calls Decide, and writes the result.
//
// A configuration has three levels. The add-on has defaults, each placement of its install strategy may replace them, and
// each cluster may replace both. A level replaces the whole list of a type. If several placements select a cluster, the
// last one configures it and the others do not count.
//
// Defaults and placements move by the placement's rollout. Changes to a cluster's own configuration apply at once.
package configuration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/rollout"
)

// Input is the input of the configuration of one add-on.
type Input struct {
	// Defaults are the add-on's defaults, and DefaultRefs their hashes.
	Defaults    []ocm.AddOnConfig
	DefaultRefs []ocm.DefaultConfigReference
	// Placements are the existing ones of the install strategy, in its order.
	Placements []Placement
	AddOns     []AddOn
	Paused     bool
	// Held has the clusters on which no change starts, and why.
	Held map[string]string
}

// Placement is a placement of the install strategy.
type Placement struct {
	ocm.ConfigObject
	Strategy ocm.RolloutStrategy
	// PerGroup is the placement's clustersPerDecisionGroup.
	PerGroup *intstr.IntOrString
	Groups   []strategy.Group
	// Configs are the placement's configurations with their hashes.
	Configs []ocm.InstallConfigReference
	// State is the state that the last decision returned.
	State rollout.State
}

// AddOn is the add-on on one cluster.
type AddOn struct {
	Cluster string
	// Configs are the cluster's own.
	Configs []ocm.AddOnConfig
	// References are the configurations that the cluster has.
	References []ocm.ConfigReference
	// Progressing and Available are conditions.
	Progressing, Available Condition
	// Occasional, Asleep, Carried and LastSeen are as in a rollout.Target.
	Occasional, Asleep, Carried bool
	LastSeen                    time.Time
}

// Condition is the part of a condition that decisions need.
type Condition struct {
	Status, Reason     string
	Message            string
	LastTransitionTime time.Time
}

// Result is the answer for one add-on.
type Result struct {
	// AddOns has an entry for each add-on that exists, sorted by cluster.
	AddOns []Decision
	// Placements has an entry for each placement, in order.
	Placements []Progress
}

// Decision is the answer for the add-on on one cluster.
type Decision struct {
	Cluster string
	// Desired is the configuration at the end of the rollout.
	Desired []ocm.ConfigReference
	// References are the configurations that it has from now on.
	References []ocm.ConfigReference
	Status     rollout.Status
	// Moves means that References equal Desired.
	Moves bool
	// Waits means that the add-on waits for its turn.
	Waits bool
}

// Condition returns condition Configured without its time (O-15, X-4). Its status is "" if it does not change.
func (d Decision) Condition() Condition {
	switch {
	case d.Waits:
		return Condition{Status: "False", Reason: "ConfigurationsNotConfigured", Message: "Configurations updated and not configured yet"}
	case d.Moves:
		return Condition{Status: "True", Reason: "ConfigurationsConfigured", Message: "Configurations configured"}
	}
	return Condition{}
}

// Decide returns which configuration each add-on has now.
func Decide(in Input, now time.Time) Result {
	defaults := withHashes(in.Defaults, in.DefaultRefs)
	owner, configured := owners(in.Placements)
	var result Result
	decisions := make([]Decision, len(in.AddOns))
	known := make([][]rollout.Target, len(in.Placements))
	at := make(map[string]int, len(in.AddOns))
	for i, a := range in.AddOns {
		base := defaults
		p, selected := owner[a.Cluster]
		if selected {
			base = overlay(defaults, placementRefs(in.Placements[p].Configs))
		}
		desired := overlay(base, ownRefs(a))
		target := observe(a, desired)
		decisions[i] = Decision{Cluster: a.Cluster, Desired: desired, References: a.References, Status: target.Status}
		at[a.Cluster] = i
		if selected {
			known[p] = append(known[p], target)
		} else {
			decisions[i].Waits = in.Held[a.Cluster] != "" && target.Status == rollout.Waiting
			decisions[i].Moves = !decisions[i].Waits
		}
	}
	held := make(map[string]bool, len(in.Held))
	for cluster := range in.Held {
		held[cluster] = true
	}
	for i, p := range in.Placements {
		progress := advance(p, configured[i], known[i], held, in.Paused, now)
		for _, d := range progress.Rollout.Targets {
			if k, exists := at[d.Name]; exists {
				decisions[k].Waits = d.Action == rollout.Wait
				decisions[k].Moves = d.Action == rollout.Start || d.Status != rollout.TimedOut && d.Action == rollout.Keep
			}
		}
		if progress.Err != nil {
			for _, t := range known[i] {
				decisions[at[t.Name]].Waits = t.Status == rollout.Waiting
			}
		}
		result.Placements = append(result.Placements, progress)
	}
	for i, d := range decisions {
		if d.Moves {
			decisions[i].References = merge(in.AddOns[i].References, d.Desired)
		}
	}
	slices.SortFunc(decisions, func(a, b Decision) int { return cmp.Compare(a.Cluster, b.Cluster) })
	result.AddOns = decisions
	return result
}

// owners finds the placement that configures each cluster: the last one that selects it. It also returns the
// clusters that each placement configures.
func owners(placements []Placement) (owner map[string]int, configured [][]strategy.Group) {
	owner = make(map[string]int)
	for i, p := range placements {
		for _, g := range p.Groups {
			for _, cluster := range g.Clusters {
				owner[cluster] = i
			}
		}
	}
	configured = make([][]strategy.Group, len(placements))
	for i, p := range placements {
		for _, g := range p.Groups {
			mine := strategy.Group{Name: g.Name, Index: g.Index}
			for _, cluster := range g.Clusters {
				if owner[cluster] == i {
					mine.Clusters = append(mine.Clusters, cluster)
				}
			}
			configured[i] = append(configured[i], mine)
		}
	}
	return owner, configured
}

// advance runs the rollout of one placement.
func advance(p Placement, groups []strategy.Group, known []rollout.Target, held map[string]bool, paused bool, now time.Time) Progress {
	progress := Progress{Placement: p}
	seen := make(map[string]bool)
	for _, g := range p.Groups {
		for _, cluster := range g.Clusters {
			seen[cluster] = true
		}
	}
	progress.Selected = len(seen)
	for _, g := range groups {
		progress.Configured = append(progress.Configured, g.Clusters...)
	}
	slices.Sort(progress.Configured)
	progress.Configured = slices.Compact(progress.Configured)
	change, err := digest(p.Configs)
	if err == nil {
		progress.Plan, err = strategy.New(strategy.Input{
			Change: change, Strategy: p.Strategy, PerGroup: p.PerGroup, Groups: groups, Paused: paused, Known: known, Held: held,
		})
		if err == nil {
			progress.Rollout, err = progress.Plan.Decide(p.State, now)
		}
	}
	if err != nil {
		progress.Err = fmt.Errorf("placement %s/%s: %w", p.Namespace, p.Name, err)
		progress.Rollout.State = p.State
	}
	progress.known = known
	return progress
}

// digest identifies the configurations that a placement rolls out.
func digest(refs []ocm.InstallConfigReference) (string, error) {
	type request struct {
		ocm.ConfigType
		Want *ocm.ConfigHash
	}
	requests := make([]request, len(refs))
	for i, ref := range refs {
		requests[i] = request{ref.ConfigType, ref.DesiredConfig}
	}
	text, err := json.Marshal(requests)
	if err != nil {
		return "", err
	}
	return sha256hex.Of(text), nil
}

// observe finds the rollout status of an add-on.
func observe(a AddOn, desired []ocm.ConfigReference) rollout.Target {
	t := rollout.Target{
		Name: a.Cluster, Status: rollout.Succeeded, Occasional: a.Occasional, Asleep: a.Asleep, Carried: a.Carried, LastSeen: a.LastSeen,
	}
	if len(a.References) != len(desired) {
		t.Status = rollout.Waiting
		return t
	}
	applied := true
	for _, ref := range a.References {
		if !slices.ContainsFunc(desired, func(want ocm.ConfigReference) bool {
			return want.ConfigType == ref.ConfigType && equal(want.DesiredConfig, ref.DesiredConfig)
		}) {
			t.Status = rollout.Waiting
			return t
		}
		applied = applied && equal(ref.LastAppliedConfig, ref.DesiredConfig)
	}
	switch {
	case !applied && a.Progressing.Reason == "Failed":
		t.Status, t.Since = rollout.Failed, a.Progressing.LastTransitionTime
	case !applied && a.Progressing.Reason == "Progressing":
		t.Status, t.Since = rollout.Working, a.Progressing.LastTransitionTime
	case !applied:
		t.Status = rollout.Working
	case a.Available.Status == "False", a.Available.Reason == "NoProbeResult": // nothing is known of its health yet
		t.Status, t.Since = rollout.Working, a.Available.LastTransitionTime
	case a.Progressing.Reason == "Completed":
		t.Since = a.Progressing.LastTransitionTime
		if a.Available.Status == "True" && a.Available.LastTransitionTime.After(t.Since) {
			t.Since = a.Available.LastTransitionTime
		}
	}
	return t
}

func equal(a, b *ocm.ConfigHash) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
