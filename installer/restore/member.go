package restore

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/volume"
)

// kubernetesFolder has kubeadm's files.
const kubernetesFolder = "/etc/kubernetes"

// controlPlane are the containers that end while etcd's data is exchanged: none of them may remember what is lost.
var controlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}

// member is this host's etcd, as its manifest has it.
type member struct {
	Name  string // of the node, too
	Peers string // URLs, with commas between
	Data  string // folder
	Image string
	Known string // all members when this host joined, as name=URL with commas between
}

// parseMember reads the manifest of etcd.
func parseMember(manifest []byte) (m member, err error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return member{}, fmt.Errorf("%s: %w", cluster.EtcdManifest, err)
	}
	for _, c := range pod.Spec.Containers {
		m.Image = c.Image
		for _, arg := range append(c.Command, c.Args...) {
			name, value, _ := strings.Cut(arg, "=")
			switch name {
			case "--name":
				m.Name = value
			case "--initial-advertise-peer-urls":
				m.Peers = value
			case "--data-dir":
				m.Data = value
			case "--initial-cluster":
				m.Known = value
			}
		}
	}
	if m.Name == "" || m.Peers == "" || m.Data == "" || m.Image == "" {
		return member{}, errors.New(cluster.EtcdManifest + " is not one of kubeadm's: it lacks an image, --name, --initial-advertise-peer-urls, or --data-dir")
	}
	if err := volume.CheckFolder(m.Data); err != nil {
		return member{}, fmt.Errorf("%s: --data-dir: %w", cluster.EtcdManifest, err)
	}
	return m, nil
}

// known are the members that this host knew when it joined, and may be gone since.
func (m member) known() (all []peer) {
	for one := range strings.SplitSeq(m.Known, ",") {
		if name, url, ok := strings.Cut(one, "="); ok {
			all = append(all, peer{name, []string{url}})
		}
	}
	return all
}

// peer is the member as others reach it.
func (m member) peer() peer { return peer{m.Name, strings.Split(m.Peers, ",")} }
