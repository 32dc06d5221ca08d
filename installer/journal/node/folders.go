package node

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/baseline"
)

// ClusterFolders are those that kubelet, containerd, etcd and pod networks make. They are removed with all that is in them,
// unless something was there before the install.
func ClusterFolders() []string {
	return []string{
		"/etc/kubernetes", "/etc/cni", "/etc/containerd", "/etc/crictl.yaml", "/opt/cni", "/opt/containerd", "/usr/libexec/kubernetes",
		"/var/lib/kubelet", "/var/lib/etcd", "/var/lib/cni", ContainerdDir, "/var/lib/calico", "/var/lib/weave", "/var/log/containers",
		"/var/log/pods", "/var/log/apiserver", "/run/flannel", "/run/containerd", "/run/kubernetes", "/run/calico", "/run/netns", "/run/nri", KubectlFolder + "/cache",
	}
}

// KubectlFolder is where kubectl keeps its cache when root runs it.
const KubectlFolder = "/root/.kube"

// DataFolders are where volumes have their data.
func DataFolders() []string {
	return []string{"/opt/local-path-provisioner", "/var/openebs", "/var/lib/rook", "/var/lib/longhorn", "/opt/replicated"}
}

// Units are those whose files the install created, the kubelet first: it would restart what the others end.
func Units(record *baseline.Record) (names []string) {
	for path, change := range record.Changes().Files {
		_, existed := record.Before().Files[path]
		folder, name := filepath.Split(path)
		isUnit := slices.Contains([]string{".service", ".socket", ".timer", ".path", ".mount"}, filepath.Ext(name))
		folder = strings.TrimSuffix(folder, "/")
		if !existed && change.File != nil && isUnit && slices.Contains([]string{"/etc/systemd/system", "/usr/lib/systemd/system", "/usr/local/lib/systemd/system"}, folder) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if first := a == "kubelet.service"; first != (b == "kubelet.service") {
			if first {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}
