package restore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/recovery/volume"
)

// kubeadm.Folder has kubeadm's files.

// member is this host's etcd, from its manifest.
type member struct {
	Name  string // also of the node
	Peers string // URLs, with commas between
	Data  string // folder
	Image string
	Known string // all members when this host joined, as name=URL with commas between
}

// parseMember reads the manifest of etcd.
func parseMember(manifest []byte) (m member, err error) {
	pod, err := kubeadm.ParsePod(manifest)
	if err != nil {
		return member{}, fmt.Errorf("%s: %w", kubeadm.EtcdManifest, err)
	}
	args := pod.Args()
	m = member{Name: args.Value("name"), Peers: args.Value("initial-advertise-peer-urls"), Data: args.Value("data-dir"), Image: pod.Image(), Known: args.Value("initial-cluster")}
	if m.Name == "" || m.Peers == "" || m.Data == "" || m.Image == "" {
		return member{}, errors.New(kubeadm.EtcdManifest + " is not one of kubeadm's: it lacks an image, --name, --initial-advertise-peer-urls, or --data-dir")
	}
	if err := volume.CheckFolder(m.Data); err != nil {
		return member{}, fmt.Errorf("%s: --data-dir: %w", kubeadm.EtcdManifest, err)
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
