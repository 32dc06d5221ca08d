package install

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/spec"
)

// settings is an install's knowledge of this node before its first step, from the Installer and the host. The variables of hooks
// are an output of it; nothing is read back from them.
type settings struct {
	address       string // by which other nodes reach this one; "" on a host that has none
	ipv6          bool   // that address and the networks of the cluster are IPv6
	address6      string // the second address, with IPv6, in a dual-stack cluster; else ""
	publicAddress string
	loadBalancer  string // of the API; "" for the balancer on each node
	endpoint      string // host:port where nodes reach the API
	clusterName   string
	airGap        bool
	onlyHost      string // name of the only host that the Installer is for; "" for any
	skipPackages  bool   // of the host
	keepRuntime   bool   // does not change the configuration of containerd
	standardPorts bool   // of Services
	certificates  string // of CAs that the host is to trust, as PEM
	selinux       string // mode; "" leaves it unchanged
	proxy         proxy
	firewalls     map[firewall.Firewall]firewallOptions
	pods          subnet
	services      subnet
}

// proxy configures the HTTP proxy of containerd and the kubelet.
type proxy struct {
	address    string // "" for no proxy
	exceptions []string
}

// firewallOptions is the Installer's setting for one firewall.
type firewallOptions struct{ leave, disable bool }

// subnet is the Installer's setting of a network of the cluster, both "" for a free one of the usual size.
type subnet struct{ network, size string }

// split divides the Installer's setting between two networks, separated by a comma.
func (s subnet) split() (first, second subnet) {
	first.network, second.network, _ = strings.Cut(s.network, ",")
	first.size, second.size, _ = strings.Cut(s.size, ",")
	return first, second
}

// dual reports whether the cluster is dual-stack.
func (s settings) dual() bool { return s.address6 != "" }

// newSettings makes the settings of the Installer and the host.
func (j *job) newSettings() settings {
	kurl, kubernetes := j.spec.Section("kurl").Options, j.spec.AddOn("kubernetes").Options
	s := settings{
		address: word(kurl, "privateAddress"), publicAddress: word(kurl, "publicAddress"), loadBalancer: word(kubernetes, "loadBalancerAddress"),
		clusterName: word(kubernetes, "clusterName"), airGap: !j.options.Online || isTrue(kurl, "airgap"), onlyHost: word(kurl, "hostnameCheck"),
		skipPackages: isTrue(kurl, "skipSystemPackageInstall"), keepRuntime: isTrue(j.spec.AddOn("containerd").Options, "preserveConfig"),
		standardPorts: isTrue(kubernetes, "useStandardNodePortRange"), certificates: word(kurl, "caCertificates"),
		selinux: selinux(j.spec.Section("selinuxConfig").Options), firewalls: firewalls(j.spec),
		services: subnet{word(kubernetes, "serviceCIDR"), word(kubernetes, "serviceCidrRange")},
	}
	if s.address == "" && j.address.Address.IsValid() {
		s.address = j.address.Address.String()
	}
	if address, err := netip.ParseAddr(s.address); err == nil {
		s.ipv6 = address.Is6()
	}
	if j.dual && !s.ipv6 && j.facts.Address6.Address.IsValid() {
		s.address6 = j.facts.Address6.Address.String()
	}
	if s.clusterName == "" {
		s.clusterName = "kubernetes"
	}
	if !isTrue(kurl, "noProxy") {
		s.proxy.address = word(kurl, "proxyAddress")
	}
	exceptions, _ := kurl["additionalNoProxyAddresses"].([]any)
	for _, one := range exceptions {
		s.proxy.exceptions = append(s.proxy.exceptions, fmt.Sprint(one))
	}
	for _, n := range []struct{ addOn, size string }{{"flannel", "podCIDRRange"}, {"antrea", "podCidrRange"}, {"weave", "podCidrRange"}} {
		options := j.spec.AddOn(n.addOn).Options
		s.pods.network = cmp.Or(s.pods.network, word(options, "podCIDR"))
		s.pods.size = cmp.Or(s.pods.size, word(options, n.size))
	}
	s.seeded(j.options.Seed)
	s.endpoint = s.reach()
	if j.Joins() {
		s.clusterName, s.endpoint = j.options.Join.Cluster.Name, j.options.Join.Cluster.Endpoint
	}
	if u := j.options.Upgrade; u != nil {
		s.endpoint = cmp.Or(u.Endpoint, s.endpoint)
	}
	return s
}

// reach is where the nodes of a new cluster reach the API: its load balancer, or the balancer on each node.
func (s settings) reach() string {
	switch {
	case s.loadBalancer == "":
		return balancer.Endpoint
	case cluster.HostOf(s.loadBalancer) == s.loadBalancer:
		return netJoin(s.loadBalancer, 6443)
	}
	return s.loadBalancer
}

// loadBalancerHost is the cluster's, which may differ from the Installer's by now; "" for the balancer on each node.
func (s settings) loadBalancerHost() string {
	if balancer.Serves(s.endpoint) {
		return ""
	}
	return cluster.HostOf(s.endpoint)
}

// variables are the settings that hooks see under kURL's names.
func (s settings) variables() map[string]string {
	return map[string]string{"PRIVATE_ADDRESS": s.address, "PRIVATE_ADDRESS6": s.address6, "IPV6_ONLY": flag(s.ipv6), "KUBERNETES_CLUSTER_NAME": s.clusterName, "KUBERNETES_API_ENDPOINT": s.endpoint, "AIRGAP": flag(s.airGap)}
}

// selinux returns the requested mode of SELinux, or "" to leave it unchanged.
func selinux(o spec.Options) string {
	switch {
	case isTrue(o, "preserveConfig"):
		return ""
	case isTrue(o, "disableSelinux"):
		return "permissive"
	}
	return word(o, "selinux")
}

// firewalls is an Installer's setting of each (kURL §2.1).
func firewalls(s *spec.Installer) map[firewall.Firewall]firewallOptions {
	firewalld, ufw := s.Section("firewalldConfig").Options, s.Section("ufwConfig").Options
	keep := isTrue(firewalld, "preserveConfig")
	return map[firewall.Firewall]firewallOptions{
		firewall.Firewalld: {leave: keep || isTrue(firewalld, "bypassFirewalldWarning"), disable: !keep && isTrue(firewalld, "disableFirewalld")},
		firewall.UFW:       {leave: isTrue(ufw, "bypassUFWWarning"), disable: isTrue(ufw, "disableUFW")},
	}
}

// word is an option that is one word or a number; "" where it is not set.
func word(o spec.Options, key string) string {
	if value, set := o[key]; set && value != nil {
		return fmt.Sprint(value)
	}
	return ""
}

func isTrue(o spec.Options, key string) bool {
	value, _ := o[key].(bool)
	return value
}

// listed writes the exceptions as variables and steps have them.
func (p proxy) listed() string { return strings.Join(p.exceptions, ",") }
