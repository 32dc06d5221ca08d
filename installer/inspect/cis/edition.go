package cis

import (
	"fmt"
	"strings"

	"github.com/sealift/sealift/catalog"
)

// Edition is a published version of the CIS Kubernetes Benchmark.
type Edition struct {
	Version string // such as 2.0.1
	// First and Last are the releases of Kubernetes that it was written for, such as 1.34 and 1.35.
	First, Last string

	from string // the oldest Kubernetes that is compared with it unless somebody chooses another edition
}

// Editions returns the editions, the oldest first. This is the one table of which Kubernetes is compared with which edition: the last one
// whose field from is not newer. Editions 1.12 and 2.0.1 have the same checks. CIS has published none for Kubernetes 1.36 and 1.37; both
// are compared with the newest, and Note says so.
func Editions() []Edition {
	return []Edition{
		{Version: "1.8", First: "1.26", Last: "1.26", from: "0"},
		{Version: "1.12", First: "1.32", Last: "1.34", from: "1.32"},
		{Version: "2.0.1", First: "1.34", Last: "1.35", from: "1.34"},
	}
}

// EditionOf returns the edition for a version of Kubernetes, such as 1.37.2.
func EditionOf(kubernetes string) (chosen Edition) {
	for _, e := range Editions() {
		if catalog.CompareVersions(minor(kubernetes), e.from) >= 0 {
			chosen = e
		}
	}
	return chosen
}

// EditionNamed returns the edition with a version, such as 1.8.
func EditionNamed(version string) (Edition, error) {
	var known []string
	for _, e := range Editions() {
		if e.Version == version {
			return e, nil
		}
		known = append(known, e.Version)
	}
	return Edition{}, fmt.Errorf("no edition %q of the CIS Kubernetes Benchmark; known: %s", version, strings.Join(known, ", "))
}

// Name is the edition as a report names it.
func (e Edition) Name() string { return "CIS Kubernetes Benchmark " + e.Version }

// Note explains that an edition was not written for a version of Kubernetes; "" if it was.
func (e Edition) Note(kubernetes string) string {
	release := minor(kubernetes)
	if catalog.CompareVersions(release, e.First) >= 0 && catalog.CompareVersions(release, e.Last) <= 0 {
		return ""
	}
	written := e.First
	if e.Last != e.First {
		written += " to " + e.Last
	}
	return fmt.Sprintf("written for Kubernetes %s; this node has %s", written, kubernetes)
}

// minor is the release of a version: 1.37 for 1.37.2.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// notIn18 is the number of a check that edition 1.8 does not have.
const notIn18 = "-"

// number is the check's number in the edition; "" if the edition does not have it.
func (e Edition) number(c check) string {
	switch {
	case e.Version != "1.8":
		return c.id
	case c.was == notIn18:
		return ""
	case c.was != "":
		return c.was
	}
	return c.id
}

// Section is a part of the benchmark: 1.2 of check 1.2.3, 2 of check 2.3.
func Section(id string) string { return id[:strings.LastIndex(id, ".")] }

// SectionTitle returns the title of a section, in all editions that have it.
func SectionTitle(section string) string {
	return map[string]string{
		"1.1": "Files of the control plane", "1.2": "API server", "1.3": "Controller manager", "1.4": "Scheduler", "2": "etcd",
		"3.1": "Login and rights", "3.2": "Audit log", "4.1": "Files of the kubelet", "4.2": "Kubelet", "4.3": "kube-proxy",
		"5.1": "Roles and service accounts", "5.2": "Pod Security", "5.3": "Network policies", "5.4": "Secrets", "5.5": "Admission",
		"5.6": "General policies", "5.7": "General policies",
	}[section]
}
