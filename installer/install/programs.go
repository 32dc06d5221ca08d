package install

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/commands"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/preflight"
)

// programsCheck looks for programs on the host, for an install or, if the host joins, for a join.
func (j *job) programsCheck(joins bool, path string) preflight.Check {
	return preflight.Check{Name: "host programs", Probe: func(_ context.Context, r *preflight.Reporter) { j.hostPrograms(r, joins, path) }}
}

// hostPrograms looks in the folders of path for the programs that hooks call and that nothing in the bundle brings. It reads the
// hooks and runs none.
func (j *job) hostPrograms(r *preflight.Reporter, joins bool, path string) {
	functions, err := hook.PreludeFunctions()
	if err != nil {
		r.Failf("see why they cannot be read", "the functions of the hooks' shell: %v", err)
		return
	}
	known := slices.Concat(commands.Known(), functions)
	for _, a := range j.addOns {
		known = append(known, a.calls.Functions()...) // all add-ons share one shell
	}
	found := true
	for _, p := range j.wantedPrograms(known, joins) {
		if hasProgram(path, p.name) {
			continue
		}
		found = false
		hint, users := installHint(p.name), strings.Join(slices.Concat(p.needing, p.asking), ", ")
		if len(p.needing) == 0 {
			r.Warnf(hint+", so that the add-on finds it", "%s is not there; hooks that call it (%s) go on without it", p.name, users)
		} else {
			r.Failf(hint, "%s is not there, and nothing in the bundle brings it; hooks call it (%s)", p.name, users)
		}
	}
	if found {
		r.Passf("those that hooks call are there")
	}
}

// installHint describes how to install a program on the host.
func installHint(program string) string {
	from := commands.PackageOf(program)
	if from.Apt == "" {
		return "take it from a release of its project, and put it into /usr/local/bin"
	}
	return "install it, with 'apt-get install " + from.Apt + "' or 'dnf install " + from.Dnf + "'"
}

// wantedProgram is a program, with the add-ons that call it.
type wantedProgram struct {
	name            string
	needing, asking []string // add-ons that fail without it, and those that continue
}

// wantedPrograms lists the programs that the host must have, in the order of the add-ons. known are commands that every node has.
func (j *job) wantedPrograms(known []string, joins bool) (list []wantedProgram) {
	packages, assets := j.bringing()
	for _, a := range j.addOns {
		for _, call := range a.calls.From(func(function string) bool { return a.runs(function, joins) }) {
			// A name with an underscore that no package has is a function that the script expects: addon lint reports it.
			hoped := strings.Contains(call.Name, "_") && commands.PackageOf(call.Name).Apt == call.Name
			if call.Bin || hoped || slices.Contains(known, call.Name) || commands.Brought(call.Name, packages, assets) {
				continue
			}
			at := slices.IndexFunc(list, func(p wantedProgram) bool { return p.name == call.Name })
			if at < 0 {
				at, list = len(list), append(list, wantedProgram{name: call.Name})
			}
			if call.Optional {
				list[at].asking = append(list[at].asking, a.name())
			} else {
				list[at].needing = append(list[at].needing, a.name())
			}
		}
	}
	return list
}

// bringing returns what may bring programs to this host: packages that Manifests name for it, and assets.
func (j *job) bringing() (packages []manifest.HostPackage, assets []manifest.Asset) {
	for _, a := range j.addOns {
		for _, p := range a.manifest.HostPackages() {
			if p.Kind.Reaches(j.facts.Target()) {
				packages = append(packages, p)
			}
		}
		assets = append(assets, a.manifest.Assets()...)
	}
	return packages, assets
}

// runs reports whether a function of the add-on is a hook that an install runs on this host, or a join if it joins.
func (a addOn) runs(function string, joins bool) bool {
	suffix, own := strings.CutPrefix(function, a.name())
	if !own {
		return false
	}
	switch suffix {
	case preflightsHook:
		return true
	case "_join":
		return joins
	case "_install":
		return !joins || a.provides(catalog.ContainerRuntime)
	case hostHook:
		return a.provides(kubernetesCapability)
	case "_pre_init":
		return !joins || a.provides(kubernetesCapability)
	case "", "_init", "_post_init", "_outro", "_already_applied":
		return !joins
	}
	return false
}

// hasProgram reports whether one of the folders of path has a program.
func hasProgram(path, name string) bool {
	return slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool { return isProgram(filepath.Join(dir, name)) })
}
