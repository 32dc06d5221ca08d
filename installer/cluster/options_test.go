package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/kube/kubeadmpatch"
)

func TestInstallerOptionsReachKubelets(t *testing.T) {
	options := map[string]string{
		"KUBERNETES_MAX_PODS_PER_NODE": "42", "CONTAINER_LOG_MAX_FILES": "3", "CONTAINER_LOG_MAX_SIZE": "5Mi",
		"EVICTION_THRESHOLD": `{"nodefs.available": "7%"}`, "SYSTEM_RESERVED": "{cpu: 500m, memory: 1Gi}", "KUBE_RESERVED": "1",
		"PUBLIC_ADDRESS": "203.0.113.5", NodePorts: "80-60000", NodeLabels: "kurl.sh/cluster=true,a=b",
	}
	k := work(t, map[string]string{"other.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmetadata:\n  name: kubelet-configuration\ncontainerLogMaxFiles: 9\n"})
	maps.Copy(k.Variables, options)
	first, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	ofKubelet := []string{"maxPods: 42\n", "containerLogMaxSize: 5Mi\n", "nodefs.available: 7%\n", "systemReserved:\n  cpu: 500m\n  memory: 1Gi\n", "kubeReserved:\n  cpu: "}
	for _, want := range append(ofKubelet,
		"containerLogMaxFiles: 9\n", // an add-on's patch goes over it
		"memory.available: 100Mi\n", // the add-on keeps the other thresholds
		"certSANs:\n  - 203.0.113.5\n", "- name: node-labels\n    value: kurl.sh/cluster=true,a=b\n", "- name: node-ip\n", "  - name: service-node-port-range\n    value: 80-60000\n",
	) {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	if err := k.writeJoinConfig(filepath.Join(k.Work, "kubeadm-join.yaml")); err != nil {
		t.Fatal(err)
	}
	joined, err := os.ReadFile(filepath.Join(k.Work, "patches/kubeletconfiguration+merge.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append(ofKubelet, "containerLogMaxFiles: 3\n") {
		if !strings.Contains(string(joined), want) {
			t.Errorf("no %q for a node that joins in\n%s", want, joined)
		}
	}
}

// TestComplianceExtendsDefaults: the arguments of the add-on stay.
func TestComplianceExtendsDefaults(t *testing.T) {
	k := work(t, nil)
	plain, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	k.Variables[compliance] = "1"
	compliant, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, always := range []string{"- name: audit-log-maxage\n    value: \"30\"\n", "- name: tls-cipher-suites\n", "hostPath: /var/log/apiserver\n", "serverTLSBootstrap: true\n"} {
		if !strings.Contains(plain, always) || !strings.Contains(compliant, always) {
			t.Errorf("no %q in\n%s\n%s", always, plain, compliant)
		}
	}
	for _, asked := range []string{
		"- name: enable-admission-plugins\n    value: NodeRestriction,DenyServiceExternalIPs\n", "- name: kubelet-certificate-authority\n    value: /etc/kubernetes/pki/ca.crt\n",
		"podPidsLimit: 4096\n", "seccompDefault: true\n", "- name: encryption-provider-config\n    value: " + EncryptionFile + "\n",
	} {
		if strings.Contains(plain, asked) || !strings.Contains(compliant, asked) {
			t.Errorf("%q with compliance alone:\n%s\n%s", asked, plain, compliant)
		}
	}
}

// TestInstallerEnablesSecretEncryption: its folder of keys is mounted beside the volumes that every cluster has.
func TestInstallerEnablesSecretEncryption(t *testing.T) {
	k := work(t, nil)
	k.Variables[EncryptSecrets] = "1"
	config, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- name: encryption-provider-config-automatic-reload\n    value: \"true\"\n", "hostPath: /etc/kubernetes/encryption\n", "mountPath: /etc/kubernetes/encryption\n", "hostPath: /var/log/apiserver\n",
	} {
		if !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	k.Variables["KUBERNETES_VERSION"] = "1.33.9"
	if err := CheckOptions(k.Variables); err == nil || !strings.Contains(err.Error(), "needs Kubernetes 1.34.0 or newer") {
		t.Errorf("with an API server that does not tell its keys: %v", err)
	}
	k.Variables[EncryptSecrets], k.Variables[KeepEncrypted] = "", "1"
	if err := CheckOptions(k.Variables); err != nil || !Encrypts(k.Variables) {
		t.Errorf("a restored cluster whose Secrets are encrypted already: %v", err)
	}
	k.Variables[KeepEncrypted], k.Variables[compliance] = "", "1"
	if err := CheckOptions(k.Variables); err != nil || Encrypts(k.Variables) {
		t.Errorf("compliance of an older cluster: %v", err)
	}
}

func TestUnsupportedKubeletOptionsAreRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"KUBERNETES_MAX_PODS_PER_NODE": {"many", "0", "-1", "99999999999"},
		"CONTAINER_LOG_MAX_SIZE":       {"large", "0", "-1Mi", "5Mi\nevil: true"},
		"EVICTION_THRESHOLD":           {"10%", "[a]", "{memory.available: {a: b}}", "{a: b, a: c}"},
		"SYSTEM_RESERVED":              {"memory", "{memory: [1Gi]}"},
	} {
		for _, value := range values {
			if err := CheckOptions(map[string]string{name: value}); err == nil || !strings.Contains(err.Error(), "the Installer's ") {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
	}
	if err := CheckOptions(map[string]string{"KUBERNETES_MAX_PODS_PER_NODE": "", "KUBE_RESERVED": ""}); err != nil {
		t.Errorf("without any: %v", err)
	}
}

func TestReservedResourcesFollowHostSize(t *testing.T) {
	for name, row := range map[string]struct {
		cpus        int
		memory      uint64 // GiB
		cpu, wanted string
	}{
		"a small host":  {1, 2, "60m", "512Mi"},
		"two and four":  {2, 4, "70m", "1024Mi"},
		"four and 16":   {4, 16, "80m", "2662Mi"},
		"a large host":  {16, 256, "104m", "12165Mi"},
		"a narrow host": {8, 8, "88m", "1843Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reserved(row.cpus, row.memory<<30); got["cpu"] != row.cpu || got["memory"] != row.wanted {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestSlowHostHasLongerTimeouts keeps the arguments of the add-on, and lets the real kubeadm read the result.
func TestSlowHostHasLongerTimeouts(t *testing.T) {
	k := work(t, nil)
	k.Variables["PUBLIC_ADDRESS"] = "203.0.113.5"
	if usual := k.clusterOptions(1); len(usual) != 1 {
		t.Errorf("a host of usual speed has %v", usual)
	}
	k = work(t, map[string]string{"slow.yaml": slowPatch(t, k, 5)})
	config, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"leader-elect-lease-duration\n    value: 3m0s\n", "leader-elect-renew-deadline\n    value: 2m0s\n", "leader-elect-retry-period\n    value: 10s\n"} {
		if strings.Count(config, want) != 2 {
			t.Errorf("%q is not an argument of two programs in\n%s", want, config)
		}
	}
	for _, want := range []string{"etcd-healthcheck-timeout\n    value: 10s\n", "etcd-readycheck-timeout\n    value: 10s\n"} {
		if strings.Count(config, want) != 1 {
			t.Errorf("%q is not an argument of the API server in\n%s", want, config)
		}
	}
	if strings.Contains(config, "leader-elect\n") || !strings.Contains(config, "terminated-pod-gc-threshold") || !strings.Contains(config, "203.0.113.5") {
		t.Errorf("the cluster's other options are changed:\n%s", config)
	}
	validate(t, filepath.Join(k.Work, "kubeadm.yaml"))
}

// slowPatch is the patch of the configuration that a slow host makes.
func slowPatch(t *testing.T, k Kubeadm, factor time.Duration) string {
	t.Helper()
	options := k.clusterOptions(factor)
	options["apiVersion"], options["kind"], options["metadata"] = kubeadmpatch.APIVersion, "ClusterConfiguration", map[string]string{"name": "kubeadm-cluster-configuration"}
	patch, err := yaml.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return string(patch)
}

// TestInstallerEnablesLogin: the folders of both files are mounted.
func TestInstallerEnablesLogin(t *testing.T) {
	k := work(t, nil)
	maps.Copy(k.Variables, map[string]string{EncryptSecrets: "1", Authenticates: "1", "KUBERNETES_VERSION": "1.34.0"})
	config, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- name: authentication-config\n    value: " + AuthenticationFile + "\n", "mountPath: /etc/kubernetes/authentication\n", "mountPath: /etc/kubernetes/encryption\n",
	} {
		if !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	if err := CheckOptions(k.Variables); err != nil {
		t.Error(err)
	}
	k.Variables["KUBERNETES_VERSION"], k.Variables[EncryptSecrets] = "1.33.9", ""
	if err := CheckOptions(k.Variables); err == nil || !strings.Contains(err.Error(), "kubernetes.oidc") {
		t.Errorf("an older Kubernetes: %v", err)
	}
}

// TestStrictHardeningIsWrittenForAllPrograms: a node that joins gets the kubelet's part.
func TestStrictHardeningIsWrittenForAllPrograms(t *testing.T) {
	k := work(t, nil)
	k.Variables[strictness], k.Variables["KUBERNETES_VERSION"] = strict, "1.37.2"
	config, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.writeJoinConfig(filepath.Join(k.Work, "kubeadm-join.yaml")); err != nil {
		t.Fatal(err)
	}
	joined, err := os.ReadFile(filepath.Join(k.Work, "patches/kubeletconfiguration+merge.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	on := Hardening(k.Variables)
	for _, s := range on {
		want := []string{s.Name + ": " + fmt.Sprint(s.Value) + "\n"}
		if s.Program != ofKubelet {
			want = []string{"- name: " + s.Name + "\n    value: " + fmt.Sprint(s.Value) + "\n", "- name: " + s.Name + "\n      value: " + fmt.Sprint(s.Value) + "\n",
				"- name: " + s.Name + "\n    value: \"" + fmt.Sprint(s.Value) + "\"\n"}
		}
		has := func(text string) bool {
			return slices.ContainsFunc(want, func(line string) bool { return strings.Contains(text, line) })
		}
		if !has(config) || s.Program == ofKubelet && !has(string(joined)) {
			t.Errorf("%s is not in\n%s\n%s", s, config, joined)
		}
	}
	if len(on) != 14 || strings.Count(config, "- name: enable-admission-plugins\n") != 1 || !strings.Contains(config, "hostPath: "+AdmissionFile+"\n") || !strings.Contains(config, "encryption-provider-config") {
		t.Errorf("%d settings in\n%s", len(on), config)
	}
	validate(t, filepath.Join(k.Work, "kubeadm.yaml"))
	if plain := Hardening(map[string]string{}); plain != nil {
		t.Errorf("without a request: %v", plain)
	}
}

func TestInstallerKeepsSecretsPlainUnderStrictHardening(t *testing.T) {
	for name, row := range map[string]struct {
		secrets, version string
		encrypts         bool
		refused          string
	}{
		"strict":                     {"", "1.37.2", true, ""},
		"encryptSecrets: false wins": {KeepPlain, "1.37.2", false, ""},
		"an older Kubernetes":        {"", "1.33.9", false, "kubernetes.hardening needs Kubernetes 1.34.0"},
		"one that keeps them plain":  {KeepPlain, "1.33.9", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			variables := map[string]string{strictness: strict, EncryptSecrets: row.secrets, "KUBERNETES_VERSION": row.version}
			err := CheckOptions(variables)
			if Encrypts(variables) != row.encrypts || (err != nil) != (row.refused != "") || err != nil && !strings.Contains(err.Error(), row.refused) {
				t.Errorf("encrypts %v, %v", Encrypts(variables), err)
			}
		})
	}
}

func TestStrictHardeningNeedsFileOfPackage(t *testing.T) {
	k := work(t, nil)
	k.Variables[strictness] = strict
	if err := k.checkAdmission(); err != nil {
		t.Error(err)
	}
	if k.Base = filepath.Join(t.TempDir(), "kubeadm"); k.checkAdmission() == nil {
		t.Error("a package without admission.yaml is accepted")
	}
	if err := k.Init(t.Context()); err == nil || !strings.Contains(err.Error(), "build the package and the bundle again") {
		t.Errorf("the install: %v", err)
	}
}
