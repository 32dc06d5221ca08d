package preflight

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// These checks look for leftovers of an earlier cluster or another user on the host.

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
	if sign := p.distribution(); sign != "" {
		r.Failf("uninstall it first", "another Kubernetes distribution is installed (/%s)", sign)
		return
	}
	if p.runs("kubelet") {
		r.Failf("stop it: systemctl disable --now kubelet", "a kubelet runs on this host, though nothing says of which cluster")
		return
	}
	r.Passf("not a node of any cluster")
}

// distribution returns a sign of another Kubernetes distribution, or "": its folder, or a unit that would start it.
func (p probes) distribution() string {
	for _, name := range []string{
		"var/lib/rancher/k3s/agent", "var/lib/rancher/rke2/agent", "var/lib/k0s", "var/snap/microk8s/current", "var/snap/k8s/current", "var/snap/kubelet/current", "var/lib/minikube/certs",
	} {
		if _, err := fs.Stat(p.host.Root, name); err == nil {
			return name
		}
	}
	for _, folder := range unitFolders() {
		for _, unit := range []string{"k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker", "snap.microk8s.daemon-kubelite", "snap.k8s.kubelet", "snap.kubelet.daemon"} {
			if _, err := fs.Stat(p.host.Root, folder+"/"+unit+".service"); err == nil {
				return folder + "/" + unit + ".service"
			}
		}
	}
	return ""
}

func (p probes) leftovers(ctx context.Context, r *Reporter) {
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
	for _, file := range []string{"etc/kubernetes/pki/ca.crt", "etc/kubernetes/admin.conf"} {
		if _, err := fs.Stat(p.host.Root, file); err == nil {
			found = append(found, "/"+file)
		}
	}
	links, err := p.leftInterfaces()
	if err != nil {
		r.unknown(err)
		return
	}
	if len(links) > 0 {
		r.Failf("start the host again, or remove them: ip link delete "+strings.Join(links, "; ip link delete "), "the pod network of an earlier cluster left interfaces: %s", strings.Join(links, ", "))
	}
	if chains := p.leftChains(ctx); len(chains) > 0 {
		r.Failf("start the host again, which clears them", "the pod network of an earlier cluster left rules in the kernel, which redirect or drop packets: %s", strings.Join(chains, ", "))
	}
	if len(found) > 0 {
		r.Failf("if you do not need them, remove them: kubeadm reset, ip link delete cni0, rm -r /etc/kubernetes", "an earlier cluster left %s", strings.Join(found, ", "))
		return
	}
	if len(r.results) == 0 {
		r.Passf("no files of an earlier cluster")
	}
}

// runtime looks for container runtimes that Sealift did not install.
func (p probes) runtime(_ context.Context, r *Reporter) {
	if p.needs.Resumed || p.needs.Role == NoNode {
		r.Passf("not checked")
		return
	}
	found := false
	found = p.dropIns(r) || found
	found = p.containerdSettings(r) || found
	for _, one := range []struct{ service, name string }{{"crio", "CRI-O"}, {"cri-docker", "cri-dockerd"}} {
		if p.runs(one.service) {
			found = true
			r.Warnf("stop it: systemctl disable --now "+one.service, "%s runs on this host; Kubernetes does not use it, and its containers take memory and addresses", one.name)
		}
	}
	if p.runs("docker") || p.runs("snap.docker.dockerd") {
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
