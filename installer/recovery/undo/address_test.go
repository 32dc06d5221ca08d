package undo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUndoRefusesReaddressedNode changes the files of a node as 'sealift node readdress' does.
func TestUndoRefusesReaddressedNode(t *testing.T) {
	const manifest, etcd, flags = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/manifests/etcd.yaml", "/var/lib/kubelet/kubeadm-flags.env"
	h := newHost(t)
	h.write(manifest, "spec:\n  containers:\n  - command:\n    - kube-apiserver\n    - --advertise-address=10.0.0.1\n    - --secure-port=6443\n", 0o600)
	h.write(etcd, "spec:\n  containers:\n  - command:\n    - etcd\n    - --initial-advertise-peer-urls=https://10.0.0.1:2380\n    image: etcd:3.6.6\n", 0o600)
	h.write(flags, `KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1 --pod-infra-container-image=pause:3.10"`+"\n", 0o644)
	set, err := h.Keep("0123456789abcdef", "1.35.4", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.write(etcd, "spec:\n  containers:\n  - command:\n    - etcd\n    - --initial-advertise-peer-urls=https://10.0.0.1:2380\n    image: etcd:3.7.0\n", 0o600)
	h.write(flags, `KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1"`+"\n", 0o644)
	if err := set.CheckAddress(h.Store); err != nil {
		t.Errorf("after an upgrade: %v", err)
	}
	for _, path := range []string{manifest, etcd, flags} {
		file := filepath.Join(h.Rootfs, path)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h.write(path, strings.ReplaceAll(string(text), "10.0.0.1", "10.0.0.11"), 0o600)
		if err := set.CheckAddress(h.Store); err == nil || !strings.Contains(err.Error(), "got another address after the upgrade: "+path) {
			t.Errorf("%s has another address: %v", path, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := set.CheckAddress(h.Store); err != nil {
			t.Errorf("%s was taken away by an undo that was interrupted: %v", path, err)
		}
	}
}
