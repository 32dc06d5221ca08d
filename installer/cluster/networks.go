package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// NodeIPs reads the addresses of the node from the contents of KubeletFlags; "" for one that the kubelet is not told.
func NodeIPs(flags []byte) (first, second string) {
	first, second, _ = strings.Cut(kubeadm.KubeletArgs(flags).Value("node-ip"), ",")
	return first, second
}

// NetworksOf reads the networks of the cluster from the manifest of its controller manager. Those of a dual-stack cluster have a
// comma between them.
func NetworksOf(manifest []byte) (pods, services string, err error) {
	pod, err := kubeadm.ParsePod(manifest)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", kubeadm.ControllerManagerManifest, err)
	}
	pods, services = pod.Args().Value("cluster-cidr"), pod.Args().Value("service-cluster-ip-range")
	if pods == "" || services == "" {
		return "", "", errors.New(kubeadm.ControllerManagerManifest + " lacks --cluster-cidr or --service-cluster-ip-range")
	}
	return pods, services, nil
}
