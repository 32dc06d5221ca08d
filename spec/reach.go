package spec

import (
	"fmt"
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
// a request to a named host, people who may log in to the cluster, authorities that the hosts trust, and servers that get the cluster's
// snapshots, alerts or questions for names. A proxy alone is none of it: without an authority, whoever runs it sees only which servers
// the hosts ask over TLS.
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
	kurl, prometheus := i.Section("kurl").Options, i.AddOn("prometheus").Options
	if to := fmt.Sprint(prometheus["receivers"]); strings.Contains(to, "://") || strings.Contains(to, "mailto:") {
		all = append(all, Execution{"prometheus.receivers", "alerts are sent to " + oneLine(to)})
	}
	for _, option := range []struct {
		field, effect string
		value         any
	}{
		{"prometheus.smtpServer", "alerts are sent through ", prometheus["smtpServer"]},
		{"kurl.caCertificates", "the host trusts the servers of ", kurl["caCertificates"]},
		{"kurl.nameserver", "the cluster's DNS asks ", kurl["nameserver"]},
	} {
		if value, _ := option.value.(string); value != "" {
			all = append(all, Execution{option.field, option.effect + oneLine(value)})
		}
	}
	return all
}
