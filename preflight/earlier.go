package preflight

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// What was on the host before.

// server finds the API server in a kubeconfig, whose other content is none of a check's business.
var server = regexp.MustCompile(`(?m)^\s*server:\s*["']?([^"'\s]+)`)

func (p probes) otherCluster(_ context.Context, r *Reporter) {
	if p.needs.Resumed {
		r.Passf("a node of this cluster")
		return
	}
	const hint = "if that is the cluster that sealift made here, its journal is lost: put it back from a backup; " +
		"to give the cluster up with all that is in it: kubeadm reset, and ip link delete cni0"
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
	r.Passf("a node of no cluster")
}

func (p probes) leftovers(_ context.Context, r *Reporter) {
	if p.needs.Resumed {
		r.Passf("not looked at: they are this cluster's")
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
		r.Failf("if nothing in them is needed, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes", "an earlier cluster left %s", strings.Join(found, ", "))
		return
	}
	r.Passf("none of an earlier cluster")
}

// runtime looks for containers that somebody else runs.
func (p probes) runtime(_ context.Context, r *Reporter) {
	if p.needs.Resumed || p.needs.Role == NoNode {
		r.Passf("not looked at")
		return
	}
	found := false
	if p.runs("docker") {
		found = true
		r.Warnf("move what runs in it to the cluster, then uninstall it; until then its rules for the firewall and those of the pod network share one table",
			"Docker runs on this host; Kubernetes does not use it")
	}
	if _, err := fs.Stat(p.host.Root, "etc/containerd/config.toml"); err == nil {
		found = true
		r.Warnf("keep a copy of what is yours in it", "containerd is here already; its /etc/containerd/config.toml will be replaced")
	}
	if !found {
		r.Passf("none of somebody else's")
	}
}
