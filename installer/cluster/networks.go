package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// ControllerManagerManifest names the networks of the cluster.
const ControllerManagerManifest = "/etc/kubernetes/manifests/kube-controller-manager.yaml"

var nodeIP = regexp.MustCompile(`--node-ip=([0-9a-fA-F.:]+)(?:,([0-9a-fA-F.:]+))?`)

// NodeIPs reads the addresses of the node from the contents of KubeletFlags; "" for one that the kubelet is not told.
func NodeIPs(flags []byte) (first, second string) {
	found := nodeIP.FindSubmatch(flags)
	if found == nil {
		return "", ""
	}
	return string(found[1]), string(found[2])
}

// NetworksOf reads the networks of the cluster from the manifest of its controller manager. Those of a dual-stack cluster have a
// comma between them.
func NetworksOf(manifest []byte) (pods, services string, err error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return "", "", fmt.Errorf("%s: %w", ControllerManagerManifest, err)
	}
	for _, c := range pod.Spec.Containers {
		for _, arg := range append(c.Command, c.Args...) {
			switch flag, value, _ := strings.Cut(arg, "="); flag {
			case "--cluster-cidr":
				pods = value
			case "--service-cluster-ip-range":
				services = value
			}
		}
	}
	if pods == "" || services == "" {
		return "", "", errors.New(ControllerManagerManifest + " lacks --cluster-cidr or --service-cluster-ip-range")
	}
	return pods, services, nil
}
