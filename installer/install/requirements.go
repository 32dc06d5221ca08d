package install

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/preflight"
)

// requirement is a condition without which nothing is installed. It depends only on the bundle, the facts of the host and the journal,
// so that it is checked before the host is inspected more closely, and no option ignores it.
type requirement struct {
	name  string // in a report
	title string // what must hold
	check func(*job) error
	hint  string // what to do, where the error does not say it
}

// requirements are all of them, in the order of the report. A check returns nil if the requirement holds, an error of unmetf, or a
// *preflight.RefusedError with its own results.
func requirements() []requirement {
	const change = "change it in the Installer"
	return []requirement{
		{"running add-ons", "an install keeps the versions that run on this node", (*job).checkRunning, ""},
		{"downgrade", "the bundle is not older than what this node has", (*job).checkDowngrade, ""},
		{"minor versions", "Rook and Longhorn go from one minor version to the next", (*job).checkMinorSteps, ""},
		{"restore", "a host that continues a cluster has none of its own", (*job).checkSeed, ""},
		{"address", "this host has an address of the cluster's kind", (*job).checkAddress, ""},
		{"networks", "the networks of the cluster are free on this host", (*job).checkNetworks, ""},
		{"Kubernetes options", "kubeadm's configuration can be made", func(j *job) error { return cluster.CheckOptions(j.vars) }, change},
		{"join", "this host can become a node of the cluster", (*job).checkJoin, ""},
		{"proxy", "kurl.proxyAddress is a URL", (*job).checkProxy, change},
		{"certificates", "kurl.caCertificates are certificates", (*job).checkCertificates, change},
		{"node labels", "the API server accepts kurl.nodeLabels", (*job).checkLabels, change},
		{"snapshots", "snapshots can be saved as the Installer says", (*job).checkSnapshots, change},
		{"SELinux", "selinuxConfig.selinux is a mode", (*job).checkSELinux, change},
	}
}

// unmet returns a result for each requirement that does not hold. All of them are final.
func (j *job) unmet() (results []preflight.Result) {
	for _, one := range requirements() {
		err := one.check(j)
		if err == nil {
			continue
		}
		found := []preflight.Result{{Check: one.name, Status: preflight.Fail, Message: strings.ReplaceAll(err.Error(), "\n", "; "), Hint: one.hint}}
		if own := new(unmetError); errors.As(err, &own) {
			found[0].Message, found[0].Hint = own.reason, own.hint
		} else if several := new(preflight.RefusedError); errors.As(err, &several) {
			found = several.Against
		}
		for _, result := range found {
			result.Final = true
			results = append(results, result)
		}
	}
	return results
}

// unmetError is the reason why a requirement does not hold, and what to do about it.
type unmetError struct{ reason, hint string }

func (e *unmetError) Error() string { return e.reason + "; " + e.hint }

func unmetf(hint, format string, args ...any) error {
	return &unmetError{fmt.Sprintf(format, args...), hint}
}
