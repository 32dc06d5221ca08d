package install

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/spec"
)

// internalBalancer is always empty: ekco's haproxy would use the port of Sealift's balancer on each node, and do the same there.
const internalBalancer = "EKCO_ENABLE_INTERNAL_LOAD_BALANCER"

// variables are the hooks' initial variables: the spec's options, then the host's facts. The host's own win over the
// Installer's.
func (j *job) variables() map[string]string {
	vars := make(map[string]string)
	for _, v := range j.spec.Variables() {
		vars[v.Name] = v.Value
	}
	major, minor, _ := strings.Cut(j.facts.Version, ".")
	maps.Copy(vars, map[string]string{
		"DIR": j.options.Root, "SEALIFT_BIN": node.Binary, "KUBECONFIG": kubeadm.AdminKubeconfig,
		"MASTER": "1", "K8S_DISTRO": "kubeadm",
		"LSB_DIST": j.facts.Distribution, "DIST_VERSION": j.facts.Version, "DIST_VERSION_MAJOR": major, "DIST_VERSION_MINOR": minor,
		"SEALIFT_ARCH": host.Arch(), "NODE_NAME": j.facts.Hostname, "SEALIFT_CGROUP_VERSION": strconv.Itoa(j.facts.CgroupVersion),
		"SEALIFT_CGROUP_DRIVER": j.facts.CgroupDriver, "SEALIFT_CAN_LOWER_OOM_SCORE": flag(j.facts.CanLowerOOMScore),
	})
	maps.Copy(vars, j.settings.variables())
	if j.spec.APIVersion == spec.KurlAPIVersion {
		if !j.settings.standardPorts {
			vars[cluster.NodePorts] = "80-60000" // add-ons of kURL have their ports there (kURL §3.1)
		}
		vars[cluster.NodeLabels] = "kurl.sh/cluster=true"
	}
	if seed := j.options.Seed; seed != nil && seed.Encrypted {
		vars[cluster.KeepEncrypted] = flag(true)
	}
	if _, asked := j.spec.AddOn(kubernetesCapability).Options["oidc"]; asked {
		vars[cluster.Authenticates] = flag(true)
	}
	vars[internalBalancer] = ""
	maps.Copy(vars, j.joinVariables())
	vars["KURL_UTIL_IMAGE"] = j.utilityImage()
	vars[modulesVariable] = describe(j.modules())
	for name, value := range kurlVariables(j.options.Root, j.spec.Name, vars) {
		if vars[name] == "" {
			vars[name] = value
		}
	}
	return vars
}

// utilityImage is kURL's image of programs for jobs, if an add-on of the bundle brings it; "" if none does.
func (c *contents) utilityImage() string {
	for _, a := range c.addOns {
		for _, image := range a.manifest.Images() {
			if catalog.IsUtilityImage(image.Ref) {
				return image.Ref
			}
		}
	}
	return ""
}

// needUtilityImage are the add-ons that do not work without it.
func (c *contents) needUtilityImage() (names []string) {
	if c.utilityImage() != "" {
		return nil
	}
	for _, a := range c.addOns {
		if slices.ContainsFunc(a.texts, catalog.NeedsUtilityImage) {
			names = append(names, a.name())
		}
	}
	return names
}

// kurlVariables are further variables of kURL add-ons (kURL §4.4), where no option of the Installer sets them. Those of servers
// that are unreachable behind an air gap are empty.
func kurlVariables(root, installer string, vars map[string]string) map[string]string {
	all := map[string]string{
		"INSTALLER_ID": installer, "INSTALLATION_ID": "", "KURL_URL": "", "KURL_VERSION": "", "REPLICATED_APP_URL": "",
		"KURL_INSTALL_DIRECTORY": root, "KUBECTL_PLUGINS_PATH": "/usr/local/bin", "KUBEADM_CONF_DIR": "/opt/replicated",
		"KUBEADM_CONF_FILE": "/opt/replicated/kubeadm.conf", "KUBERNETES_UPGRADE": "", "CURRENT_KUBERNETES_VERSION": "",
		"PROXY_HTTPS_ADDRESS": vars["PROXY_ADDRESS"], "NO_PROXY_ADDRESSES": vars["ADDITIONAL_NO_PROXY_ADDRESSES"],
		"OBJECT_STORE_ACCESS_KEY": "", "OBJECT_STORE_SECRET_KEY": "", "OBJECT_STORE_CLUSTER_IP": "", "OBJECT_STORE_CLUSTER_HOST": "",
		"NODELESS_VERSION": "", "DID_MIGRATE_ROOK_PVCS": "", "DID_MIGRATE_ROOK_OBJECT_STORE": "", "VELERO_NAMESPACE": "",
	}
	for at, name := range []string{"KUBERNETES_TARGET_VERSION_MAJOR", "KUBERNETES_TARGET_VERSION_MINOR", "KUBERNETES_TARGET_VERSION_PATCH"} {
		all[name] = ""
		if numbers := strings.SplitN(strings.TrimPrefix(vars["KUBERNETES_VERSION"], "v"), ".", 3); at < len(numbers) {
			all[name], _, _ = strings.Cut(numbers[at], "-")
		}
	}
	for name, program := range map[string]string{
		"BIN_KURL": "kurl", "BIN_BCRYPT": "bcrypt", "BIN_HTPASSWD": "htpasswd", "BIN_PVMIGRATE": "pvmigrate", "BIN_SUBNET": "subnet",
		"BIN_TOML": "toml", "BIN_YAMLUTIL": "yamlutil",
	} {
		all[name] = filepath.Join(root, "bin", program)
	}
	return all
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
