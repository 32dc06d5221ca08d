package install

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// Running selects which programs of a bundle may run while a host is checked.
type Running int

// The zero value runs all checks.
const (
	// RunAll runs the checks of add-ons and of the Installer.
	RunAll Running = iota
	// RunAddOns leaves out the checks of the Installer if one of them runs something.
	RunAddOns
	// RunHooks runs the hooks of add-ons that check their options, and no program for other checks: what an upgrade of a running cluster asks.
	RunHooks
	// RunNothing runs only sealift's own checks.
	RunNothing
)

// Executions lists what runs on this host in addition to the steps of the plan: hooks and collectors of add-ons that check the
// host, and the Installer's own commands.
func (j *job) Executions(o PreflightOptions) []spec.Execution {
	return append(j.addOnExecutions(o), j.spec.Executions()...)
}

// CheckExecutions lists those that run while the host is looked at.
func (j *job) CheckExecutions(o PreflightOptions) []spec.Execution {
	return append(j.addOnExecutions(o), j.spec.CheckExecutions()...)
}

func (j *job) addOnExecutions(o PreflightOptions) (all []spec.Execution) {
	if o = j.completed(o); o.ExcludeBuiltin {
		return nil
	}
	for _, s := range j.addOnChecks() {
		all = append(all, executionsOf(s, o.Node, j.spec)...)
	}
	for _, a := range j.askedAddOns() {
		all = append(all, spec.Execution{Field: a.name(), Runs: "the hook " + a.name() + preflightsHook + ", which may name more checks"})
	}
	return all
}

// executionsOf lists the commands of a specification. One that cannot be read runs nothing.
func executionsOf(c preflight.Specification, n preflight.Node, s *spec.Installer) []spec.Execution {
	text, err := c.Render(n, s)
	if err != nil {
		return nil
	}
	var all []spec.Execution
	for decoder := yaml.NewDecoder(strings.NewReader(string(text))); ; {
		var document any
		if decoder.Decode(&document) != nil {
			return all
		}
		all = append(all, spec.Collectors(c.Name, document)...)
	}
}

// ownChecks returns the specification of the Installer if it may be used, and otherwise reports that it was left out.
func (o PreflightOptions) ownChecks(s *spec.Installer) ([]preflight.Specification, []preflight.Result, error) {
	own, err := installerPreflight(s)
	if err != nil || o.Runs != RunAddOns {
		return own, nil, err
	}
	if len(s.CheckExecutions()) == 0 {
		return own, nil, nil
	}
	return nil, []preflight.Result{{Check: "installer: checks", Status: preflight.Warn, Message: "not made: they run commands of the Installer",
		Hint: "look at the commands, and give --yes to run them"}}, nil
}
