package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// work makes an install root's kubeadm folder with the base configuration of the catalogue and the given patches.
func work(t *testing.T, patches map[string]string) Kubeadm {
	t.Helper()
	dir := t.TempDir()
	for name, text := range patches {
		if !strings.Contains(name, "/") {
			name = "init-patches/" + name
		}
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Kubeadm{Base: "../../addons/kubernetes/template/kubeadm", Work: dir, Output: t.Output(), Variables: map[string]string{
		"KUBERNETES_VERSION": "1.36.3", "KUBERNETES_CLUSTER_NAME": "kubernetes", "KUBERNETES_API_ENDPOINT": "10.0.0.1:6443",
		"POD_CIDR": "10.32.0.0/20", "SERVICE_CIDR": "10.96.0.0/22", "PRIVATE_ADDRESS": "10.0.0.1", "NODE_NAME": "one",
		"KUBERNETES_POD_SUBNET": "10.32.0.0/20", "KUBERNETES_SERVICE_SUBNET": "10.96.0.0/22", "KUBERNETES_NODE_IP": "10.0.0.1",
		"SEALIFT_CGROUP_DRIVER": "systemd", "KUBEADM_TOKEN": "abcdef.0123456789abcdef",
		"KUBEADM_TOKEN_CA_HASH": "sha256:00", "CERT_KEY": "11",
	}}
}

// initConfig is read by kubeadm init.
func (k Kubeadm) initConfig() (string, error) {
	objects, err := k.render("init", nil)
	if err != nil {
		return "", err
	}
	name := filepath.Join(k.Work, "kubeadm.yaml")
	if err := writeDocuments(name, objects); err != nil {
		return "", err
	}
	data, err := os.ReadFile(name)
	return string(data), err
}

func TestConfigurationOmitsMetadata(t *testing.T) {
	got, err := work(t, nil).initConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubernetesVersion: v1.36.3", "podSubnet: 10.32.0.0/20", "advertiseAddress: 10.0.0.1", "cgroupDriver: systemd", "kind: KubeProxyConfiguration"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "metadata") || strings.Contains(got, "${") {
		t.Errorf("metadata or variables left:\n%s", got)
	}
}

func TestAddOnsPatchConfiguration(t *testing.T) {
	shipped, err := os.ReadFile("../../addons/kubernetes/template/kubeadm/patches/kubernetes-cgroup-v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	patch := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmetadata:\n  name: kubelet-configuration\nmaxPods: 42\n"
	i := work(t, map[string]string{"other.yaml": patch, "kubernetes-cgroup-v1.yaml": string(shipped)})
	for range 2 {
		got, err := i.initConfig()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"maxPods: 42", "cgroupDriver: systemd", "failCgroupV1: false", "- SystemVerification", "advertiseAddress: 10.0.0.1"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
}

func TestValuesAddNoStructure(t *testing.T) {
	i := work(t, nil)
	hostile := "x\"\nkind: Evil\n---\nkind: Evil"
	i.Variables["KUBERNETES_CLUSTER_NAME"] = hostile
	got, err := i.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "kind: Evil") {
			t.Errorf("a value became structure:\n%s", got)
		}
	}
}

func TestMissingValueAndBrokenPatchAreNamed(t *testing.T) {
	i := work(t, nil)
	delete(i.Variables, "KUBERNETES_POD_SUBNET")
	if _, err := i.initConfig(); err == nil || !strings.Contains(err.Error(), "${KUBERNETES_POD_SUBNET}") {
		t.Errorf("got %v", err)
	}
	i = work(t, map[string]string{"stray.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: none\n"})
	if _, err := i.initConfig(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}

func TestJoinConfigurationIsForOneNode(t *testing.T) {
	k := work(t, map[string]string{"join-patches/other.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmetadata:\n  name: kubelet-configuration\nmaxPods: 42\n"})
	for _, shipped := range []string{"kubernetes-control-plane.yaml", "kubernetes-join-cgroup-v1.yaml"} {
		data, err := os.ReadFile("../../addons/kubernetes/template/kubeadm/patches/" + shipped)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(k.Work, "join-patches", shipped), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(k.Work, "kubeadm-join.yaml")
	if err := k.writeJoinConfig(name); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		name: {"token: abcdef.0123456789abcdef", "- sha256:00", "apiServerEndpoint: 10.0.0.1:6443", "certificateKey: \"11\"", "advertiseAddress: 10.0.0.1", "- SystemVerification", "directory: " + k.Work + "/patches"},
		filepath.Join(k.Work, "patches/kubeletconfiguration+merge.yaml"): {"maxPods: 42", "cgroupDriver: systemd", "failCgroupV1: false"},
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(data), want) {
				t.Errorf("no %q in %s:\n%s", want, file, data)
			}
		}
		if strings.Contains(string(data), "metadata") || strings.Contains(string(data), "${") {
			t.Errorf("metadata or variables left in %s:\n%s", file, data)
		}
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the token: %v, %v", info.Mode(), err)
	}
}

// TestKeysWithoutCertificatesAreRemoved has leftovers of kubeadm killed between a key and its certificate, and an external CA
// without its key.
func TestKeysWithoutCertificatesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := []string{"ca.crt", "ca.key", "etcd/ca.crt", "front-proxy-ca.crt", "sa.key", "sa.pub"}
	for _, name := range append(slices.Clone(kept), "apiserver-etcd-client.key", "etcd/server.key") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeUnpaired(dir); err != nil {
		t.Fatal(err)
	}
	left, err := fs.Glob(os.DirFS(dir), "*.*")
	if err != nil {
		t.Fatal(err)
	}
	below, err := fs.Glob(os.DirFS(dir), "etcd/*")
	if err != nil {
		t.Fatal(err)
	}
	left = append(left, below...)
	slices.Sort(left)
	if !slices.Equal(left, kept) {
		t.Errorf("left %v, want %v", left, kept)
	}
	if err := removeUnpaired(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
}
