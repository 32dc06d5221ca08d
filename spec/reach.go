package spec

import "slices"

// reachingCollectors are Troubleshoot's host collectors that read a file or ask a host that the document names. They run
// nothing.
func reachingCollectors() []string {
	return []string{
		"certificate", "certificatesCollection", "copy", "dns", "http", "httpLoadBalancer", "journald", "registryImages", "tcpConnect", "tcpLoadBalancer",
	}
}

// Reaches lists the collectors in the Installer's own checks that read a named file or send a request to a named host.
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
	return all
}
