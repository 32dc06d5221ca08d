package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// work makes an install root's kubeadm folder with the base configuration of the catalogue and the given patches.
func work(t *testing.T, patches map[string]string) Init {
	t.Helper()
	dir := t.TempDir()
	for name, text := range patches {
		name = filepath.Join(dir, "init-patches", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Init{Base: "../../addons/kubernetes/template/kubeadm/init", Work: dir, Variables: map[string]string{
		"KUBERNETES_VERSION": "1.36.3", "KUBERNETES_CLUSTER_NAME": "kubernetes", "KUBERNETES_API_ENDPOINT": "10.0.0.1:6443",
		"POD_CIDR": "10.32.0.0/20", "SERVICE_CIDR": "10.96.0.0/22", "PRIVATE_ADDRESS": "10.0.0.1", "NODE_NAME": "one",
		"SEALIFT_CGROUP_DRIVER": "systemd",
	}}
}

func TestConfigurationHasValuesAndNoMetadata(t *testing.T) {
	got, err := work(t, nil).config()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubernetesVersion: v1.36.3", "podSubnet: 10.32.0.0/20", "advertiseAddress: 10.0.0.1", "cgroupDriver: systemd", "kind: KubeProxyConfiguration"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "metadata") || strings.Contains(string(got), "${") {
		t.Errorf("metadata or variables left:\n%s", got)
	}
}

func TestAddOnsPatchTheConfiguration(t *testing.T) {
	shipped, err := os.ReadFile("../../addons/kubernetes/template/kubeadm/patches/kubernetes-cgroup-v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	patch := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmetadata:\n  name: kubelet-configuration\nmaxPods: 42\n"
	i := work(t, map[string]string{"other.yaml": patch, "kubernetes-cgroup-v1.yaml": string(shipped)})
	for range 2 {
		got, err := i.config()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"maxPods: 42", "cgroupDriver: systemd", "failCgroupV1: false", "- SystemVerification", "advertiseAddress: 10.0.0.1"} {
			if !strings.Contains(string(got), want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
}

func TestValuesAddNoStructure(t *testing.T) {
	i := work(t, nil)
	hostile := "x\"\nkind: Evil\n---\nkind: Evil"
	i.Variables["KUBERNETES_CLUSTER_NAME"] = hostile
	got, err := i.config()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(got)) {
		if strings.HasPrefix(line, "kind: Evil") {
			t.Errorf("a value became structure:\n%s", got)
		}
	}
}

func TestMissingValueAndBrokenPatchAreNamed(t *testing.T) {
	i := work(t, nil)
	delete(i.Variables, "POD_CIDR")
	if _, err := i.config(); err == nil || !strings.Contains(err.Error(), "${POD_CIDR}") {
		t.Errorf("got %v", err)
	}
	i = work(t, map[string]string{"stray.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: none\n"})
	if _, err := i.config(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}
