package preflight

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// These checks look for what an earlier cluster or another user left on the host.

// server finds the URL of the API server in a kubeconfig. The check needs nothing else from it.
var server = regexp.MustCompile(`(?m)^\s*server:\s*["']?([^"'\s]+)`)

func (p probes) otherCluster(_ context.Context, r *Reporter) {
	if p.needs.Resumed {
		r.Passf("a node of this cluster")
		return
	}
	const hint = "if sealift made that cluster, the journal is lost: restore it from a backup; " +
		"to delete the cluster and its data: kubeadm reset, and ip link delete cni0"
	if config, err := fs.ReadFile(p.host.Root, "etc/kubernetes/kubelet.conf"); err == nil {
		where := "another cluster"
		if m := server.FindSubmatch(config); m != nil {
			where = "the cluster at " + string(m[1])
		}
		r.Failf(hint, "this host is a node of %s (/etc/kubernetes/kubelet.conf)", where)
		return
	} else if !errors.Is(err, fs.ErrNotExist) {
		r.unknown(err)
		return
	}
	for _, dir := range []string{"var/lib/rancher/k3s/agent", "var/lib/rancher/rke2/agent", "var/lib/k0s", "var/snap/microk8s/current"} {
		if _, err := fs.Stat(p.host.Root, dir); err == nil {
			r.Failf("uninstall it first", "another Kubernetes distribution is installed (/%s)", dir)
			return
		}
	}
	r.Passf("not a node of any cluster")
}

func (p probes) leftovers(_ context.Context, r *Reporter) {
	if p.needs.Resumed {
		r.Passf("not checked: they belong to this cluster")
		return
	}
	var found []string
	for _, dir := range []string{"etc/kubernetes/manifests", "var/lib/etcd/member"} {
		entries, err := fs.ReadDir(p.host.Root, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.unknown(err)
			return
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") {
				found = append(found, "/"+path.Join(dir, entry.Name()))
			}
		}
	}
	for _, file := range []string{"etc/kubernetes/pki/ca.crt", "etc/kubernetes/admin.conf", "sys/class/net/cni0"} {
		if _, err := fs.Stat(p.host.Root, file); err == nil {
			found = append(found, "/"+file)
		}
	}
	if len(found) > 0 {
		r.Failf("if you do not need them, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes", "an earlier cluster left %s", strings.Join(found, ", "))
		return
	}
	r.Passf("no files of an earlier cluster")
}

// runtime looks for container runtimes that Sealift did not install.
func (p probes) runtime(_ context.Context, r *Reporter) {
	if p.needs.Resumed || p.needs.Role == NoNode {
		r.Passf("not checked")
		return
	}
	found := false
	if p.runs("docker") {
		found = true
		r.Warnf("move its workloads to the cluster, then uninstall it; until then Docker and the pod network share one table of firewall rules",
			"Docker runs on this host; Kubernetes does not use it")
	}
	if _, err := fs.Stat(p.host.Root, "etc/containerd/config.toml"); err == nil {
		found = true
		r.Warnf("keep a copy of your settings", "containerd is already installed; the install will replace /etc/containerd/config.toml")
	}
	if !found {
		r.Passf("no other container runtime")
	}
}
