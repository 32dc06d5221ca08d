package spec

import "slices"

// reachingCollectors are those of Troubleshoot's host collectors that read a file which the document names, or ask a host which
// it names. They run nothing.
func reachingCollectors() []string {
	return []string{
		"certificate", "certificatesCollection", "copy", "dns", "http", "httpLoadBalancer", "journald", "registryImages", "tcpConnect", "tcpLoadBalancer",
	}
}

// Reaches lists the collectors of the Installer's own checks that read files or send requests as it says.
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
