package configuration

import (
	"fmt"
	"slices"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/strategy"
	"github.com/sealift/sealift/rollout"
)

// Progress is the progress of the rollout over one placement.
type Progress struct {
	Placement Placement
	// Selected counts the clusters that the placement selects. Configured are those that it configures.
	Selected   int
	Configured []string
	// Plan is the plan of Rollout.
	Plan    strategy.Plan
	Rollout rollout.Result
	// Err is why the placement's rollout does not run. Other placements continue.
	Err error

	known []rollout.Target
}

// Status is the add-on's status for a placement (O-26, X-11).
type Status struct {
	// Done means that all configured clusters have the configuration: condition Progressing is False.
	Done    bool
	Reason  string
	Message string
	// Configs are the placement's configurations. Those of a placement that is done are the last that were applied and good.
	Configs []ocm.InstallConfigReference
}

// Status returns what to write for the placement.
func (p Progress) Status() Status {
	s := Status{Reason: "Progressing", Configs: slices.Clone(p.Placement.Configs)}
	if p.Err != nil {
		s.Message = p.Err.Error()
		return s
	}
	observed := make(map[string]rollout.Status, len(p.known))
	for _, t := range p.known {
		observed[t.Name] = t.Status
	}
	progressing, done, failed, timeout := 0, 0, 0, 0
	for _, d := range p.Rollout.Targets {
		was, exists := observed[d.Name]
		switch {
		case d.Status == rollout.TimedOut:
			timeout++
			if was == rollout.Failed {
				failed++
			}
		case d.Status == rollout.Succeeded:
			done++
		case exists && d.Action != rollout.Wait:
			progressing++
		}
	}
	total := len(p.Configured)
	if total == 0 || done != total {
		s.Message = fmt.Sprintf("selected clusters %d. configured addons %d/%d progressing..., %d failed %d timeout.",
			p.Selected, progressing+done, total, failed, timeout)
		return s
	}
	s.Done, s.Reason = true, "Completed"
	s.Message = fmt.Sprintf("selected clusters %d. configured addons %d/%d completed with no errors, %d failed %d timeout.",
		p.Selected, done, total, failed, timeout)
	for i := range s.Configs {
		s.Configs[i].LastAppliedConfig, s.Configs[i].LastKnownGoodConfig = s.Configs[i].DesiredConfig, s.Configs[i].DesiredConfig
	}
	return s
}

// Requested is the configuration that the install strategy has for a placement.
type Requested struct {
	ocm.ConfigObject
	Configs []ocm.AddOnConfig
}

// Defaults returns the references of the add-on's defaults. A reference to the same object keeps its hash.
func Defaults(defaults []ocm.AddOnConfig, had []ocm.DefaultConfigReference) []ocm.DefaultConfigReference {
	var list []ocm.DefaultConfigReference
	for _, ref := range withHashes(defaults, had) {
		list = append(list, ocm.DefaultConfigReference{ConfigType: ref.ConfigType, DesiredConfig: ref.DesiredConfig})
	}
	return list
}

// Install returns the references of a placement: its own configurations, and the defaults of all other types. A reference
// to the same object keeps its hashes.
func Install(defaults []ocm.AddOnConfig, requested Requested, had []ocm.InstallConfigReference) []ocm.InstallConfigReference {
	var own []ocm.ConfigReference
	for _, c := range requested.Configs {
		own = append(own, ocm.ConfigReference{ConfigType: c.ConfigType, DesiredConfig: &ocm.ConfigHash{ConfigObject: c.ConfigObject}})
	}
	var list []ocm.InstallConfigReference
	for _, ref := range overlay(withHashes(defaults, nil), own) {
		install := ocm.InstallConfigReference{ConfigType: ref.ConfigType, DesiredConfig: ref.DesiredConfig}
		for _, h := range had {
			if h.ConfigType == ref.ConfigType && h.DesiredConfig != nil && h.DesiredConfig.ConfigObject == ref.DesiredConfig.ConfigObject {
				install = h
			}
		}
		list = append(list, install)
	}
	return list
}
