package install

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// running is an installed add-on of this node, from the journal.
type running struct {
	version string
	options string // digest of its options; "" where an earlier sealift recorded none
	adopted bool   // another installer brought it, and no upgrade has replaced it yet
}

// live reports whether this host is a node of a cluster. Before that, nothing depends on an install's files, and the same
// install may continue with another bundle.
func (h *hostFacts) live() bool {
	_, made := h.past.Last(node.InitStep)
	_, joined := h.past.Last(node.JoinStep)
	return made || joined
}

// runningAddOns returns the installed add-ons of this node. One that an install has not finished does not count.
func (j *job) runningAddOns() map[string]running {
	if !j.live() {
		return nil
	}
	kubernetes, _ := kubernetes(j.addOns)
	return runningIn(j.past.Records(), kubernetes.name())
}

// Versions are the versions of the installed add-ons of a node, by name, from its journal.
func Versions(records []lifecycle.Record) map[string]string {
	versions := map[string]string{}
	for name, one := range runningIn(records, kubernetesCapability) {
		if one.version != "" {
			versions[name] = one.version
		}
	}
	return versions
}

// runningIn reads a journal. kubernetes is the name of the add-on around whose hooks kubeadm runs.
func runningIn(records []lifecycle.Record, kubernetes string) map[string]running {
	files := map[string]string{} // the version whose files the node has
	begun := map[string]bool{}   // the add-ons whose decisive hook was called
	found, prepared := map[string]running{}, map[string]running{}
	whole := false // every add-on of an install finished
	for _, rec := range records {
		name, finished := rec.AddOn, rec.Outcome == lifecycle.Finished
		_, what, _ := strings.Cut(rec.Step, "/")
		made := rec.Step == node.InitStep || rec.Step == node.JoinStep
		if made {
			name = kubernetes
		}
		now := running{cmp.Or(rec.State[addOnVersion], files[name]), rec.Options, rec.Operation == lifecycle.Adopting}
		switch {
		case rec.Step == node.ReadyStep:
			whole = whole || finished
			if finished {
				maps.Copy(found, withoutHooks(rec.State))
			}
		case what == removeStep:
			if finished {
				delete(found, name)
				delete(prepared, name)
			}
		case name == "" || what == imagesStep:
		case what == filesStep:
			if finished {
				files[name] = rec.State[addOnVersion]
			}
		case rec.Step == node.KubeletStep:
			if finished {
				found[name] = now
			}
		case name == kubernetes && !made: // kubeadm creates or joins the cluster, whatever its hooks do in addition
			if finished && what == preInitStep {
				prepared[name] = now
			}
		case made || what == installStep || what == joinHookStep:
			begun[name] = true
			if finished {
				found[name] = now
			}
		case finished:
			prepared[name] = now
		}
	}
	for name, a := range prepared {
		if one, runs := found[name]; runs {
			if name == kubernetes { // kubeadm's step has no options, the hook before it has
				found[name] = running{one.version, a.options, one.adopted}
			}
		} else if whole && !begun[name] { // its hooks before or after all others are all that it has
			found[name] = a
		}
	}
	return found
}

// hooklessState is the key of a state: the add-ons without hooks that a node had when all add-ons were ready, as JSON. No step of their
// own shows that they run: an operator of modules runs them, for example.
const hooklessState = "SEALIFT_ADD_ONS_WITHOUT_HOOKS"

// describeHookless is the value of hooklessState.
func (c *contents) describeHookless() string {
	var hookless []addOn
	for _, a := range c.addOns {
		if !a.provides(kubernetesCapability) && !slices.ContainsFunc(hookSuffixes(), func(suffix string) bool { return a.hasHook(a.name() + suffix) }) {
			hookless = append(hookless, a)
		}
	}
	return describe(hookless)
}

// withoutHooks reads hooklessState.
func withoutHooks(state lifecycle.State) map[string]running {
	all := map[string]running{}
	var described []describedAddOn
	if err := json.Unmarshal([]byte(state[hooklessState]), &described); err != nil { // an earlier sealift noted none
		return all
	}
	for _, a := range described {
		all[a.Name] = running{version: a.Version, options: a.Options}
	}
	return all
}

// carries reports whether all else on the node runs on an add-on: its hooks are not called again below what runs.
func (a addOn) carries() bool {
	return a.provides(catalog.ContainerRuntime) || a.provides(kubernetesCapability)
}

// checkRunning refuses a bundle that would change the version of a running add-on on this node, or the options of an add-on that
// all others run on. An install does not drain the node before it replaces the runtime, and does not know the way from one
// version to another.
func (j *job) checkRunning() error {
	if j.options.Upgrade != nil {
		return nil
	}
	var against []preflight.Result
	var versions []string
	all := j.runningAddOns()
	for _, a := range j.addOns {
		has, runs := all[a.name()]
		if !runs || has.version == "" {
			continue
		}
		versions = append(versions, a.name()+" "+has.version)
		switch {
		case has.adopted && a.carries():
			against = append(against, preflight.Result{Check: a.name(), Status: preflight.Fail,
				Message: fmt.Sprintf("version %s on this node is the one of another installer", has.version)})
		case has.version != a.info.Version:
			against = append(against, preflight.Result{Check: a.name(), Status: preflight.Fail,
				Message: fmt.Sprintf("this node runs version %s, the bundle has %s", has.version, a.info.Version)})
		case a.carries() && has.options != "" && has.options != a.options:
			against = append(against, preflight.Result{Check: a.name(), Status: preflight.Fail,
				Message: fmt.Sprintf("version %s runs here with other options than the Installer has now", has.version),
				Hint:    "give it the options of the first install"})
		}
	}
	if len(against) == 0 {
		return nil
	}
	return &preflight.RefusedError{Against: append(against, preflight.Result{Check: "install", Status: preflight.Fail,
		Message: "does not change the version of a running add-on",
		Hint:    "nothing was changed; upgrade the cluster with 'sealift upgrade', or use a bundle with the versions that run: " + strings.Join(versions, ", ")})}
}

// keep leaves a finished host step of a running add-on alone. The package may have been built again: as long as the version is
// the same, nothing is replaced. checkRunning has already compared the options of the add-ons that all others run on.
func (p *planner) keep(a addOn, step *lifecycle.Step) {
	if _, runs := p.running[a.name()]; !runs {
		return
	}
	rec, finished := p.past.Last(step.ID)
	if finished && (a.carries() || rec.Options == "" || rec.Options == a.options) {
		step.Inputs = rec.Inputs
	}
}

// arriving returns the add-ons that do not run on this node yet.
func (j *job) arriving() []addOn {
	staying := j.staying()
	return slices.DeleteFunc(slices.Clone(j.addOns), func(a addOn) bool {
		_, runs := staying[a.name()]
		return runs
	})
}

// staying returns the add-ons whose steps on the host do not change: an upgrade replaces all of them.
func (j *job) staying() map[string]running {
	if j.options.Upgrade != nil {
		return nil
	}
	return j.runningAddOns()
}
