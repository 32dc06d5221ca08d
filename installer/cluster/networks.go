package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	journal "github.com/sealift/sealift/installer/journal/node"
)

// NodeIPs reads the addresses of the node from the contents of KubeletFlags; "" for one that the kubelet is not told.
func NodeIPs(flags []byte) (first, second string) {
	first, second, _ = strings.Cut(kubeadm.KubeletArgs(flags).Value("node-ip"), ",")
	return first, second
}

// NetworksOf reads the networks of the cluster from the manifest of its controller manager.
func NetworksOf(manifest []byte) (n journal.ClusterNetworks, err error) {
	pod, err := kubeadm.ParsePod(manifest)
	if err != nil {
		return n, fmt.Errorf("%s: %w", kubeadm.ControllerManagerManifest, err)
	}
	n.Pods, n.Services = pod.Args().Value("cluster-cidr"), pod.Args().Value("service-cluster-ip-range")
	if n.Pods == "" || n.Services == "" {
		return n, errors.New(kubeadm.ControllerManagerManifest + " lacks --cluster-cidr or --service-cluster-ip-range")
	}
	return n, nil
}
