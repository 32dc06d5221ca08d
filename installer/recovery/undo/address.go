package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/regularfile"
)

// ownAddress reads the address of a node from one of its files: the flag that names it. ok is false for a file without that flag, such
// as one that is broken.
func ownAddress(path string, text []byte) (address string, ok bool) {
	if path == kubeadm.KubeletFlags {
		return kubeadm.KubeletArgs(text).Get("node-ip")
	}
	pod, err := kubeadm.ParsePod(text)
	if err != nil {
		return "", false
	}
	return pod.Args().Get(map[string]string{kubeadm.APIServerManifest: "advertise-address", kubeadm.EtcdManifest: "initial-advertise-peer-urls"}[path])
}

// CheckAddress refuses a set of a node that has another address now: its manifests would start at an address that the host may not have,
// with certificates for the other one.
func (s Set) CheckAddress(store Store) error {
	for _, path := range []string{kubeadm.APIServerManifest, kubeadm.EtcdManifest, kubeadm.KubeletFlags} {
		at := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == path })
		if at < 0 {
			continue
		}
		was, err := regularfile.ReadFile(s.copyOf(at))
		if err != nil {
			return fmt.Errorf("the copy of %s: %w", path, err)
		}
		now, err := regularfile.ReadFile(store.onDisk(s.Files[at]))
		if errors.Is(err, fs.ErrNotExist) {
			continue // an interrupted undo has removed it
		}
		if err != nil {
			return err
		}
		before, had := ownAddress(path, was)
		after, has := ownAddress(path, now)
		if had && has && before != after {
			return fmt.Errorf("this node got another address after the upgrade: %s has %s, and the copy to go back to has %s; "+
				"change it back first with 'sealift node readdress', or restore a snapshot, as docs/snapshots.md says", path, after, before)
		}
	}
	return nil
}

// CheckEndpoint refuses a set of a node that reaches the API elsewhere now, as after a change of the load balancer: etcd's data name the
// former one, and the kubeconfigs and certificates of all nodes the new one. A set of an older sealift is not checked.
func (s Set) CheckEndpoint(store Store) error {
	if s.Endpoint == "" {
		return nil
	}
	now, err := cluster.Endpoint(store.Rootfs)
	if err != nil || now == "" || strings.EqualFold(now, s.Endpoint) {
		return err
	}
	return fmt.Errorf("the cluster got another load balancer after the upgrade: this node reaches the API at %s, and the data to go back to name %s; "+
		"change it back first with 'sealift node load-balancer %s', or restore a snapshot, as docs/snapshots.md says", now, s.Endpoint, s.Endpoint)
}
