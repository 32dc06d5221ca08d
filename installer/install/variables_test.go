package install

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/spec"
)

// readByAddOns are variables that kURL add-ons read without setting them first: the names of kURL §4.4, with the options behind
// "FLANNEL_*" and "per-add-on options" there.
var readByAddOns = strings.Fields(`DIR NC GREEN AIRGAP YELLOW PROXY_ADDRESS PRIVATE_ADDRESS PROMETHEUS_VERSION K8S_DISTRO PUBLIC_ADDRESS
	KOTSADM_APPLICATION_SLUG REPLICATED_APP_URL KOTSADM_APPLICATION_NAMESPACES KUBECTL_PLUGINS_PATH KURL_UTIL_IMAGE ROOK_VERSION
	KOTSADM_UI_BIND_PORT KUBERNETES_TARGET_VERSION_MAJOR KUBERNETES_TARGET_VERSION_MINOR KUBERNETES_TARGET_VERSION_PATCH LSB_DIST
	EKCO_VERSION PROXY_HTTPS_ADDRESS INSTALLATION_ID BIN_KURL ROOK_MINIMUM_NODE_COUNT OPENEBS_LOCALPV KUBERNETES_VERSION MINIO_HOSTPATH
	RED VELERO_VERSION LONGHORN_VERSION INSTALLER_ID PROMETHEUS_SERVICE_TYPE DOCKER_VERSION OBJECT_STORE_ACCESS_KEY OBJECT_STORE_SECRET_KEY
	OBJECT_STORE_CLUSTER_IP OBJECT_STORE_CLUSTER_HOST CONTAINERD_PRESERVE_CONFIG CONTAINERD_TOML_CONFIG CONTAINERD_VERSION
	DOCKER_REGISTRY_IP NO_PROXY_ADDRESSES IPV6_ONLY BIN_PVMIGRATE BIN_HTPASSWD CURRENT_KUBERNETES_VERSION KURL_URL KURL_VERSION
	DIST_VERSION DIST_VERSION_MAJOR ROOK_SHARED_FILESYSTEM_DISABLED ASSUME_YES FLANNEL_POD_CIDR FLANNEL_POD_CIDR_RANGE KUBEADM_CONF_FILE
	KUBERNETES_UPGRADE ROOK_BYPASS_UPGRADE_WARNING MINIO_NAMESPACE KOTSADM_DISABLE_S3 DID_MIGRATE_ROOK_PVCS CEPH_POOL_REPLICAS
	VELERO_NAMESPACE KUBECONFIG MASTER POD_CIDR SERVICE_CIDR HOSTNAME BLUE`)

// setByTheCore are those that functions of the core leave behind: nothing has them before, and none may read them then.
var setByTheCore = map[string]string{"major": "semverParse 1.2.3", "minor": "semverParse 1.2.3", "patch": "semverParse 1.2.3",
	"PROMPT_RESULT": "confirmY", "SEMVER_COMPARE_RESULT": "semverCompare 1.2.3 1.2.3"}

func TestEveryContractVariableIsSet(t *testing.T) {
	i := made(t)
	i.hooks.root = t.TempDir()
	i.hooks.variables["DIR"] = i.hooks.root
	if err := i.hooks.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.hooks.close() })
	script := i.hooks.root + "/install.sh"
	body := "look() {\n MISSING='' MADE=0\n for name in " + strings.Join(append(slices.Clone(readByAddOns), "KOTSADM_APPLICATION_NAMESPACES_ARRAY"), " ") +
		"; do declare -p \"$name\" >/dev/null 2>&1 || MISSING+=\" $name\"; done\n"
	for name, call := range setByTheCore {
		body += " " + call + "; [ -z \"${" + name + "-}\" ] || MADE=$((MADE + 1))\n"
	}
	if err := os.WriteFile(script, []byte(body+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := i.hooks.shell.Source(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	state, err := i.hooks.call(t.Context(), "look")
	if err != nil {
		t.Fatal(err)
	}
	if state["MISSING"] != "" || state["MADE"] != "5" {
		t.Errorf("missing:%s; of those of the core %s of 5 are made", state["MISSING"], state["MADE"])
	}
}

func TestOnlineIsNotAirGapped(t *testing.T) {
	for name, row := range map[string]struct {
		text   string
		online bool
		want   string
	}{
		"a bundle":             {"", false, "1"},
		"a server":             {"", true, ""},
		"a server, air-gapped": {"  kurl: {airgap: true}\n", true, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := spec.Parse("i", strings.NewReader("apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nspec:\n  ekco: {version: '1', enableInternalLoadBalancer: true}\n"+row.text))
			if err != nil {
				t.Fatal(err)
			}
			i := &job{options: Options{Online: row.online}, contents: contents{spec: s}}
			i.settings = i.newSettings()
			vars := i.variables()
			if vars["AIRGAP"] != row.want || vars["OFFLINE_DOCKER_INSTALL"] != row.want && row.online {
				t.Errorf("AIRGAP is %q, want %q", vars["AIRGAP"], row.want)
			}
			if vars["EKCO_ENABLE_INTERNAL_LOAD_BALANCER"] != "" || vars[cluster.NodeLabels] != "kurl.sh/cluster=true" {
				t.Errorf("ekco's balancer %q, labels %q", vars["EKCO_ENABLE_INTERNAL_LOAD_BALANCER"], vars[cluster.NodeLabels])
			}
		})
	}
}
