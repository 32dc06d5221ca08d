package spec_test

import (
	"slices"
	"testing"

	"github.com/sealift/sealift/spec"
)

func variable(t testing.TB, i *spec.Installer, name string) string {
	t.Helper()
	all := i.Variables()
	at := slices.IndexFunc(all, func(v spec.Variable) bool { return v.Name == name })
	if at < 0 {
		t.Fatalf("there is no variable %s", name)
	}
	return all[at].Value
}

func TestInstallerSetsVariables(t *testing.T) {
	tests := map[string]struct{ body, variable, want string }{
		"a version":                               {"  certManager: {version: 1.9.1}", "CERT_MANAGER_VERSION", "1.9.1"},
		"an option by the rule":                   {"  flannel: {version: 1, podCIDR: 10.32.0.0/20}", "FLANNEL_POD_CIDR", "10.32.0.0/20"},
		"an option that kURL names otherwise":     {"  rook: {version: 1, cephReplicaCount: 3}", "CEPH_POOL_REPLICAS", "3"},
		"a misspelt name that hooks rely on":      {"  docker: {version: 1, s3Override: u}", "DOCKER_S3_OVERRRIDE", "u"},
		"true":                                    {"  kurl: {airgap: true}", "AIRGAP", "1"},
		"false":                                   {"  kurl: {airgap: false}", "AIRGAP", ""},
		"a number":                                {"  kubernetes: {version: 1, maxPodsPerNode: 200}", "KUBERNETES_MAX_PODS_PER_NODE", "200"},
		"zero":                                    {"  contour: {version: 1, httpPort: 0}", "CONTOUR_HTTP_PORT", ""},
		"a namespace that kURL never uses":        {"  velero: {version: 1, namespace: backups}", "VELERO_LOCAL_BUCKET", ""},
		"a list":                                  {"  velero: {version: 1, serverFlags: [--a, --b=c]}", "VELERO_SERVER_FLAGS", "--a,--b=c"},
		"a range without its slash":               {"  weave: {version: 1, podCidrRange: /20}", "POD_CIDR_RANGE", "20"},
		"a range of one digit":                    {"  weave: {version: 1, podCidrRange: 8}", "POD_CIDR_RANGE", "8"},
		"a range of IPv6":                         {"  kubernetes: {version: 1, serviceCidrRange: /112}", "SERVICE_CIDR_RANGE", "112"},
		"ranges of IPv4 and IPv6":                 {"  weave: {version: 1, podCidrRange: '/22,/112'}", "POD_CIDR_RANGE", "22,112"},
		"a range that nobody filled in":           {"  weave: {version: 1, podCidrRange: ''}", "POD_CIDR_RANGE", ""},
		"an absent option":                        {"  weave: {version: 1}", "FLANNEL_POD_CIDR", ""},
		"an absent option with a default":         {"  weave: {version: 1}", "KUBERNETES_CLUSTER_NAME", "kubernetes"},
		"hardFailOnLoopback when absent":          {"  weave: {version: 1}", "HARD_FAIL_ON_LOOPBACK", "1"},
		"hardFailOnLoopback when false":           {"  docker: {version: 1, hardFailOnLoopback: false}", "HARD_FAIL_ON_LOOPBACK", ""},
		"noMasqLocal when absent":                 {"  weave: {version: 1}", "NO_MASQ_LOCAL", "1"},
		"noMasqLocal when false":                  {"  weave: {version: 1, noMasqLocal: false}", "NO_MASQ_LOCAL", "0"},
		"a load balancer, which makes HA":         {"  kubernetes: {version: 1, loadBalancerAddress: lb}", "HA_CLUSTER", "1"},
		"airgap, which makes docker offline":      {"  kurl: {airgap: true}", "OFFLINE_DOCKER_INSTALL", "1"},
		"preserveConfig, which outweighs disable": {"  firewalldConfig: {preserveConfig: true, disableFirewalld: true}", "DISABLE_FIREWALLD", ""},
		"disable without preserveConfig":          {"  selinuxConfig: {disableSelinux: true}", "DISABLE_SELINUX", "1"},
		"a section under its other spelling":      {"  ufw: {disableUFW: true}", "DISABLE_UFW", "1"},
		"an add-on under its folder's name":       {"  metrics-server: {version: 1}", "METRICS_SERVER_VERSION", "1"},
		"another's add-on: its version":           {"  localPathProvisioner: {version: 0.0.30}", "LOCAL_PATH_PROVISIONER_VERSION", "0.0.30"},
		"another's add-on: zero stays":            {"  myApp: {version: 1, replicas: 0}", "MY_APP_REPLICAS", "0"},
		"another's add-on: a mapping as JSON":     {"  myApp: {version: 1, limits: {b: [1], a: x}}", "MY_APP_LIMITS", `{"a":"x","b":[1]}`},
		"another's add-on: a list of lists":       {"  myApp: {version: 1, rows: [[a], [b]]}", "MY_APP_ROWS", `[["a"],["b"]]`},
		"a value with the shell's own characters": {"  kurl: {proxyAddress: \"$(reboot) `x` \\\"\"}", "PROXY_ADDRESS", "$(reboot) `x` \""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := variable(t, parse(t, document(test.body)), test.variable); got != test.want {
				t.Errorf("%s = %q, want %q", test.variable, got, test.want)
			}
		})
	}
}

func TestVariablesAreSortedWithoutProgramOptions(t *testing.T) {
	all := parse(t, document("  kurl: {installerVersion: v1}\n  selinuxConfig: {type: targeted}")).Variables()
	if !slices.IsSortedFunc(all, func(a, b spec.Variable) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) {
		t.Error("not sorted, or a name twice")
	}
	for _, v := range all {
		if v.Value == "v1" || v.Value == "targeted" {
			t.Errorf("%s is exported", v.Name)
		}
	}
}

func TestVariableNamesFollowKeys(t *testing.T) {
	tests := []struct{ key, option, addOn, variable string }{
		{"flannel", "podCIDRRange", "flannel", "FLANNEL_POD_CIDR_RANGE"},
		{"certManager", "s3Override", "cert-manager", "CERT_MANAGER_S3_OVERRIDE"},
		{"kotsadm", "disableS3", "kotsadm", "KOTSADM_DISABLE_S3"},
		{"openebs", "isLocalPVEnabled", "openebs", "OPENEBS_IS_LOCAL_PV_ENABLED"},
		{"ekco", "rookShouldDisableReconcileCephCSIResources", "ekco", "EKCO_ROOK_SHOULD_DISABLE_RECONCILE_CEPH_CSI_RESOURCES"},
		{"k3s", "HACluster", "k3s", "K3S_HA_CLUSTER"},
		{"local-path-provisioner", "kebab-case_option", "local-path-provisioner", "LOCAL_PATH_PROVISIONER_KEBAB_CASE_OPTION"},
	}
	for _, test := range tests {
		if got := spec.AddOnName(test.key); got != test.addOn {
			t.Errorf("AddOnName(%q) = %q, want %q", test.key, got, test.addOn)
		}
		if got := spec.VariableName(test.key, test.option); got != test.variable {
			t.Errorf("VariableName(%q, %q) = %q, want %q", test.key, test.option, got, test.variable)
		}
	}
}
