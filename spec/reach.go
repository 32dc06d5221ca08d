package spec

import (
	"slices"
	"strings"
)

// reachingCollectors are Troubleshoot's host collectors that read a file or ask a host that the document names. They run
// nothing.
func reachingCollectors() []string {
	return []string{
		"certificate", "certificatesCollection", "copy", "dns", "http", "httpLoadBalancer", "journald", "registryImages", "tcpConnect", "tcpLoadBalancer",
	}
}

// Reaches lists what gives a stranger something if the stranger wrote the Installer: collectors in its own checks that read a named file or send
// a request to a named host, people who may log in to the cluster, and a server that gets its snapshots.
func (i *Installer) Reaches() []Execution {
	document, _ := i.Section("kurl").Options["hostPreflights"].(map[string]any)
	checks, _ := document["spec"].(map[string]any)
	collectors, _ := checks["collectors"].([]any)
	var all []Execution
	for _, one := range collectors {
		named, _ := one.(map[string]any)
		for _, kind := range sortedKeys(named) {
			if slices.Contains(reachingCollectors(), kind) {
				all = append(all, Execution{"kurl.hostPreflights", "the collector " + kind + ": " + oneLine(named[kind])})
			}
		}
	}
	if people := i.AddOn("kubernetes").Options["oidc"]; people != nil {
		all = append(all, Execution{"kubernetes.oidc", "people whom an issuer knows may log in: " + oneLine(people)})
	}
	if place, _ := i.Section("snapshots").Options["store"].(string); strings.Contains(place, "://") {
		all = append(all, Execution{"snapshots.store", "the content of the cluster is sent to " + oneLine(place)})
	}
	return all
}
