package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// requirement is a condition without which nothing is installed. It depends only on the bundle, the facts of the host and the journal,
// so that it is checked before the host is inspected more closely, and no option ignores it.
type requirement struct {
	name  string // in a report
	early bool   // can be checked without the bundle and the journal
	check func(*job) error
	hint  string // what to do, where the error does not say it
}

// requirements returns all requirements, in the order of the report. A check returns nil if the requirement holds, an error of unmetf, or a
// *preflight.RefusedError with its own results.
func requirements() []requirement {
	const change = "change it in the Installer"
	return []requirement{
		{name: "running add-ons", check: (*job).checkRunning},
		{name: "downgrade", check: (*job).checkDowngrade},
		{name: "minor versions", check: (*job).checkMinorSteps},
		{name: "restore", check: (*job).checkSeed},
		{name: "address", early: true, check: (*job).checkAddress},
		{name: "networks", check: (*job).checkNetworks},
		{name: "Kubernetes options", check: func(j *job) error { return cluster.CheckOptions(j.vars) }, hint: change},
		{name: "encryption of Secrets", check: (*job).checkSecretsKeys, hint: change},
		{name: "join", check: (*job).checkJoin},
		{name: "proxy", early: true, check: (*job).checkProxy},
		{name: "certificates", early: true, check: (*job).checkCertificates, hint: change},
		{name: "node labels", early: true, check: (*job).checkLabels, hint: change},
		{name: "login", early: true, check: (*job).checkLogin, hint: change},
		{name: "snapshots", early: true, check: (*job).checkSnapshots, hint: change},
		{name: "metrics", early: true, check: (*job).checkMetrics, hint: change},
		{name: "SELinux", early: true, check: (*job).checkSELinux},
	}
}

// unmet returns a result for each requirement that does not hold. All of them are final.
func (j *job) unmet(all []requirement) (results []preflight.Result) {
	for _, one := range all {
		results = append(results, one.results(j)...)
	}
	return results
}

// results returns nothing if the requirement holds.
func (q requirement) results(j *job) []preflight.Result {
	err := q.check(j)
	if err == nil {
		return nil
	}
	found := []preflight.Result{{Check: q.name, Status: preflight.Fail, Message: strings.ReplaceAll(err.Error(), "\n", "; "), Hint: q.hint}}
	if own := new(unmetError); errors.As(err, &own) {
		found[0].Message, found[0].Hint = own.reason, own.hint
	} else if several := new(preflight.RefusedError); errors.As(err, &several) {
		found = slices.Clone(several.Against)
	}
	for n := range found {
		found[n].Final = true
	}
	return found
}

// unmetByInstaller returns a result for each setting of an Installer that a host cannot fulfil when it makes a cluster. It checks only
// what needs neither a bundle nor a journal.
func unmetByInstaller(s *spec.Installer, facts host.Facts) ([]preflight.Result, error) {
	j := &job{contents: contents{spec: s}, hostFacts: hostFacts{facts: facts, past: &lifecycle.Journal{}}}
	for _, a := range s.AddOns {
		j.addOns = append(j.addOns, addOn{info: bundle.PackageInfo{Name: a.Name, Version: a.Version}})
	}
	if err := j.chooseAddress(); err != nil {
		return nil, err
	}
	j.settings = j.newSettings()
	return j.unmet(slices.DeleteFunc(requirements(), func(q requirement) bool { return !q.early })), nil
}

// unmetError is an unmet requirement, and its remedy.
type unmetError struct{ reason, hint string }

func (e *unmetError) Error() string { return e.reason + "; " + e.hint }

func unmetf(hint, format string, args ...any) error {
	return &unmetError{fmt.Sprintf(format, args...), hint}
}
