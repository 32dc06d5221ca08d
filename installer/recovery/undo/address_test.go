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

// TestUndoRefusesOtherLoadBalancer changes the kubeconfigs of a node as 'sealift node load-balancer' does.
func TestUndoRefusesOtherLoadBalancer(t *testing.T) {
	t.Parallel()
	const before, after = "lb-1.example.com:6443", "lb-2.example.com:6443"
	admin, kubelet := "/etc/kubernetes/admin.conf", "/etc/kubernetes/kubelet.conf"
	conf := func(server string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: https://" + server + "}}]\n"
	}
	for name, row := range map[string]struct {
		before, after map[string]string
		older, wants  bool // an older sealift made the set; a refusal
	}{
		"the same one":                    {map[string]string{admin: before}, map[string]string{admin: before}, false, false},
		"the same one, written otherwise": {map[string]string{admin: "LB-1.example.com:6443"}, map[string]string{admin: before}, false, false},
		"another one":                     {map[string]string{admin: before}, map[string]string{admin: after}, false, true},
		"another one on a worker":         {map[string]string{kubelet: before}, map[string]string{kubelet: after}, false, true},
		"the kubelet of a control plane":  {map[string]string{admin: before, kubelet: "10.0.0.1:6443"}, map[string]string{kubelet: "10.0.0.2:6443"}, false, false},
		"a set of an older sealift":       {map[string]string{admin: before}, map[string]string{admin: after}, true, false},
		"a host that was no node":         {nil, map[string]string{admin: after}, false, false},
	} {
		h := newHost(t)
		for file, server := range row.before {
			h.write(file, conf(server), 0o600)
		}
		h.keep(first)
		for file, server := range row.after {
			h.write(file, conf(server), 0o600)
		}
		set, err := h.Newest() // as the disk has it
		if err != nil {
			t.Fatal(err)
		}
		if row.older {
			set.Endpoint = ""
		}
		err = set.CheckEndpoint(h.Store)
		if (err != nil) != row.wants || row.wants && !strings.Contains(err.Error(), "'sealift node load-balancer "+before+"'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
