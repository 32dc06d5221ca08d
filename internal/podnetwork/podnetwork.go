// Package podnetwork knows the names of what pod networks and kube-proxy make in the kernel of a node, and leave there.
package podnetwork

import (
	"path"
	"slices"
	"strings"
)

// IsLink reports whether a pod network or kube-proxy makes an interface of a name. No administrator chooses such a name.
func IsLink(name string) bool {
	return slices.ContainsFunc([]string{
		"cni0", "flannel.[0-9]*", "flannel-v6.[0-9]*", "flannel-wg*", "vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "cali" + strings.Repeat("[0-9a-f]", 11), "cilium_*", "lxc_health",
		"weave", "vethwe-*", "antrea-gw0", "antrea-egress0", "kube-bridge", "kube-dummy-if", "kube-ipvs0", "nodelocaldns", "ovn-k8s-mp0",
	}, func(pattern string) bool {
		match, _ := path.Match(pattern, name)
		return match
	})
}

// Chains begin the names of iptables' chains whose rules drop or redirect the packets of another pod network.
func Chains() []string {
	return []string{"cali-", "CILIUM_", "OLD_CILIUM_", "WEAVE", "KUBE-ROUTER-", "KUBE-NWPLCY-", "KUBE-POD-FW-", "ANTREA-"}
}
