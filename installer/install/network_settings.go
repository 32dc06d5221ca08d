package install

import (
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// The steps that set up a host for the network that it is in. They are planned when there is something to do, and when there once was:
// removed settings of an Installer are reverted.
const (
	certificatesStep = "node/certificates"
	proxyStep        = "node/proxy"
)

// networkSettings adds those steps, after the networks are known.
func (p *planner) networkSettings() {
	if p.settings.certificates != "" || p.past.Began(certificatesStep) {
		p.add(lifecycle.Step{ID: certificatesStep, Phase: lifecycle.PreInit, Title: "trust the CAs that the Installer names", Timeout: shortTime,
			Inputs: lifecycle.Digest(p.settings.certificates)}, (*Install).trustCertificates)
	}
	if p.settings.proxy.address != "" || p.past.Began(proxyStep) {
		p.addRestored(lifecycle.Step{ID: proxyStep, Phase: lifecycle.PreInit, Title: "tell containerd and kubelet of the proxy", Timeout: shortTime,
			Inputs: lifecycle.Digest(p.settings.proxy.address, p.settings.proxy.listed(), p.networkInputs())}, (*Install).setProxy)
	}
	if len(p.openable(p.firewalls)) > 0 || p.past.Began(node.FirewallStep) {
		p.add(lifecycle.Step{ID: node.FirewallStep, Phase: lifecycle.PreInit, Title: "open the firewall for the cluster", Timeout: shortTime,
			Inputs: lifecycle.Digest(p.disabled(), p.networkInputs())}, (*Install).openFirewall)
	}
	p.commands()
}
