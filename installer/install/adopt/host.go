package adopt

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/host/packages"
)

// haproxyManifest is the static pod with which ekco balances the API on port 6444 of each node.
const haproxyManifest = kubeadm.Manifests + "/haproxy.yaml"

// Host is the state of this host's disk.
type Host struct {
	Name         string `json:"name"`
	Member       bool   `json:"member"`       // of a cluster: its kubelet has credentials
	ControlPlane bool   `json:"controlPlane"` // has the manifest of an API server
	Containerd   bool   `json:"containerd"`   // has a configuration of containerd
	Haproxy      bool   `json:"haproxy"`      // kURL's balancer of the API runs here
	// Kurl are kURL's files and folders on this host, Packages its installed host packages, with versions.
	Kurl     []string          `json:"kurl"`
	Packages map[string]string `json:"packages"`
}

// readHost reads a host whose file system is below root.
func readHost(ctx context.Context, root, name string) (h Host, err error) {
	h = Host{Name: name, Kurl: []string{}, Packages: map[string]string{}}
	for path, found := range map[string]*bool{
		kubeadm.KubeletKubeconfig: &h.Member, kubeadm.APIServerManifest: &h.ControlPlane, "/etc/containerd/config.toml": &h.Containerd, haproxyManifest: &h.Haproxy,
	} {
		if *found, err = exists(root, path); err != nil {
			return h, err
		}
	}
	for _, path := range kurlPaths() {
		there, err := exists(root, path)
		if err != nil {
			return h, err
		}
		if there {
			h.Kurl = append(h.Kurl, path)
		}
	}
	installed, err := packages.Installed(ctx)
	for _, one := range kurlPackages() {
		if version := installed[one]; version != "" {
			h.Packages[one] = version
		}
	}
	return h, err
}

// kurlPaths are files and folders that kURL leaves on a host (kURL §3.7).
func kurlPaths() []string {
	return []string{"/etc/kurl/uuid", "/var/lib/kurl", "/var/lib/kurl.repos", "/var/log/kurl", "/opt/replicated", "/opt/ekco", "/etc/haproxy"}
}

// kurlPackages are the host packages that Kubernetes and the container runtime of kURL consist of (kURL §1.5).
func kurlPackages() []string {
	return []string{"containerd.io", "cri-tools", "kubeadm", "kubectl", "kubelet", "kubernetes-cni"}
}

func exists(root, path string) (bool, error) {
	_, err := os.Stat(filepath.Join(root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// clusterFolders are the folders of a node that belong to its cluster. A reset removes them. The folders of the container runtime
// and the programs of the pod network are kURL's, and stay.
func clusterFolders() []string {
	return []string{
		"/etc/kubernetes", "/etc/cni", "/var/lib/kubelet", "/var/lib/etcd", "/var/lib/cni", "/var/lib/calico", "/var/lib/weave", "/var/log/containers",
		"/var/log/pods", "/var/log/apiserver", "/run/flannel", "/run/kubernetes", "/run/calico", "/run/netns",
	}
}

// forgetCluster removes the cluster from a baseline: from the adoption on it is ours, and a reset ends it as one of our own. What
// else kURL put on the host counts as there before.
func forgetCluster(s *baseline.State) {
	ours := clusterFolders()
	for path := range s.Files {
		enabled := strings.HasSuffix(path, ".wants/kubelet.service") && strings.HasPrefix(path, "/etc/systemd/system/")
		if enabled || files.IsIn(path, ours) {
			delete(s.Files, path)
		}
	}
	for _, folder := range ours {
		if _, asked := s.Folders[folder]; asked {
			s.Folders[folder] = false
		}
	}
	system := &s.System
	system.Units = slices.DeleteFunc(system.Units, func(unit string) bool { return unit == "kubelet.service" })
	system.Mounts = slices.DeleteFunc(system.Mounts, func(mount string) bool { return files.IsIn(mount, append(ours, "/run/containerd")) })
	system.Links = slices.DeleteFunc(system.Links, network.IsPodLink)
	system.Routes = slices.DeleteFunc(system.Routes, func(route string) bool {
		_, link, _ := strings.Cut(route, " dev ")
		return network.IsPodLink(link)
	})
	system.Firewall = slices.DeleteFunc(system.Firewall, func(rule string) bool {
		return slices.ContainsFunc(firewall.PodChains(), func(chain string) bool { return strings.Contains(rule, " "+chain) })
	})
}

// stays lists what a reset leaves on the host, since kURL installed it before.
func (f Found) stays() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(f.Host.Packages)) {
		lines = append(lines, "package "+name+" "+f.Host.Packages[name])
	}
	lines = append(append(lines, "the container runtime with its images and settings", "settings of the kernel"), f.Host.Kurl...)
	if k := f.Cluster.Kurl; k != nil && k.Folder != "" && !slices.Contains(lines, k.Folder) {
		lines = append(lines, k.Folder)
	}
	return lines
}
