package installer

import (
	"strconv"
	"strings"

	"github.com/sealift/sealift/installer/cluster"
)

// variables are what hooks see before any of them ran: the spec's options, then what the host is.
func (i *Install) variables() map[string]string {
	vars := make(map[string]string)
	for _, v := range i.spec.Variables() {
		vars[v.Name] = v.Value
	}
	address := vars["PRIVATE_ADDRESS"]
	if address == "" && i.facts.Address.IsValid() {
		address = i.facts.Address.String()
	}
	name := vars["KUBERNETES_CLUSTER_NAME"]
	if name == "" {
		name = "kubernetes"
	}
	for name, value := range map[string]string{
		"DIR": i.options.Root, "SEALIFT_BIN": installedBinary, "KUBECONFIG": cluster.AdminKubeconfig,
		"AIRGAP": "1", "MASTER": "1", "K8S_DISTRO": "kubeadm",
		"LSB_DIST": i.facts.Distribution, "DIST_VERSION": i.facts.Version, "DIST_VERSION_MAJOR": strings.Split(i.facts.Version, ".")[0],
		"NODE_NAME": i.facts.Hostname, "PRIVATE_ADDRESS": address, "KUBERNETES_CLUSTER_NAME": name,
		"KUBERNETES_API_ENDPOINT": netJoin(address, 6443),
		"SEALIFT_CGROUP_VERSION":  strconv.Itoa(i.facts.CgroupVersion),
		"SEALIFT_CGROUP_DRIVER":   i.facts.CgroupDriver, "SEALIFT_CAN_LOWER_OOM_SCORE": flag(i.facts.CanLowerOOMScore),
	} {
		vars[name] = value
	}
	return vars
}

func netJoin(address string, port int) string {
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return address + ":" + strconv.Itoa(port)
}

// flag is a boolean as shell code tests it.
func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}
