package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
)

// Endpoint returns where a node reaches the API of its cluster, as host:port. rootfs is the folder with the host's files; empty means /. A
// host that is not a node has none: "".
//
// kubeadm connects the kubelet of a control plane to its own host's API server, so there the administrator's kubeconfig counts.
func Endpoint(rootfs string) (string, error) {
	for _, name := range []string{kubeadm.AdminKubeconfig, kubeadm.KubeletKubeconfig} {
		config, err := clientcmd.LoadFromFile(files.Host{Rootfs: rootfs}.Path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		of := config.Contexts[config.CurrentContext]
		if of == nil || config.Clusters[of.Cluster] == nil {
			return "", fmt.Errorf("%s names no server", name)
		}
		return strings.TrimPrefix(config.Clusters[of.Cluster].Server, "https://"), nil
	}
	return "", nil
}
