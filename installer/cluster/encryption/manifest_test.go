package encryption

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
)

const apiServer = `apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver, namespace: kube-system, annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "10.0.0.1:6443"}}
spec:
  hostNetwork: true
  containers:
  - name: kube-apiserver
    image: registry.k8s.io/kube-apiserver:v1.36.3
    command: [kube-apiserver, --advertise-address=10.0.0.1]
    volumeMounts: [{name: k8s-certs, mountPath: /etc/kubernetes/pki, readOnly: true}]
  volumes: [{name: k8s-certs, hostPath: {path: /etc/kubernetes/pki, type: DirectoryOrCreate}}]
status: {}
`

func TestRunningAPIServerGetsKeysOnce(t *testing.T) {
	t.Parallel()
	h := Host{files.Host{Rootfs: t.TempDir()}}
	path := h.Path(kubeadm.APIServerManifest)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := os.WriteFile(path, []byte(apiServer), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Enable(); err != nil {
		t.Fatal(err)
	}
	text := read()
	for _, want := range []string{"--advertise-address=10.0.0.1\n", "--encryption-provider-config=/etc/kubernetes/encryption/config.yaml\n", "--encryption-provider-config-automatic-reload=true\n",
		"mountPath: /etc/kubernetes/encryption\n", "path: /etc/kubernetes/encryption\n", "path: /etc/kubernetes/pki\n", "hostNetwork: true\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err := h.Enable(); err != nil || read() != text {
		t.Errorf("the second time it changes: %v", err)
	}
	own := strings.Replace(apiServer, "--advertise", "--encryption-provider-config=/etc/kubernetes/enc.yaml, --advertise", 1)
	if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Enable(); err == nil || !strings.Contains(err.Error(), "/etc/kubernetes/enc.yaml, which Sealift did not create") {
		t.Errorf("with keys that somebody else made: %v", err)
	}
}

func TestUpgradesAndJoinsEncryptSecrets(t *testing.T) {
	t.Parallel()
	const config = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer:\n  extraArgs:\n  - {name: profiling, value: \"false\"}\nnetworking: {podSubnet: 10.0.0.0/16}\n"
	text, err := cluster.Encryption().AddTo(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: profiling\n", "name: encryption-provider-config\n", "hostPath: /etc/kubernetes/encryption\n", "podSubnet: 10.0.0.0/16\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if again, err := cluster.Encryption().AddTo(text); err != nil || again != text {
		t.Errorf("the second time it changes: %s, %v", again, err)
	}
	for _, wrong := range []string{"{", "kind: Pod", strings.Replace(config, "- {name: profiling, value: \"false\"}", "  profiling: \"false\"", 1)} {
		if _, err := cluster.Encryption().AddTo(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestLostKeysAreNotReplaced(t *testing.T) {
	t.Parallel()
	h := Host{files.Host{Rootfs: t.TempDir()}}
	path := h.Path(kubeadm.APIServerManifest)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(apiServer), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.CheckKeys(); err != nil {
		t.Errorf("an API server without encryption needs no keys: %v", err)
	}
	made(t, h)
	if err := errors.Join(h.Enable(), h.CheckKeys()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(h.Path(cluster.EncryptionFile), 0); err != nil { // as a loss of power may
		t.Fatal(err)
	}
	if err := h.CheckKeys(); err == nil || !strings.Contains(err.Error(), "missing or empty") {
		t.Errorf("an empty file: %v", err)
	}
	if err := os.Remove(h.Path(cluster.EncryptionFile)); err != nil {
		t.Fatal(err)
	}
	if err := h.CheckKeys(); err == nil || !strings.Contains(err.Error(), "missing or empty") {
		t.Errorf("no file: %v", err)
	}
}
