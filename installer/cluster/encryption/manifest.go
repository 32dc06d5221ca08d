package encryption

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// manifest reads the manifest of this host's API server. It refuses one that encrypts with keys that Sealift did not make.
func (h Host) manifest() (*corev1.Pod, error) {
	text, err := regularfile.ReadFile(h.Path(kubeadm.APIServerManifest))
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		return nil, fmt.Errorf("%s: %w", kubeadm.APIServerManifest, err)
	}
	if len(pod.Spec.Containers) != 1 {
		return nil, fmt.Errorf("%s: the pod has %d containers instead of one", kubeadm.APIServerManifest, len(pod.Spec.Containers))
	}
	if file, ok := kubeadm.Args(pod.Spec.Containers[0].Command).Get(cluster.EncryptionArguments()[0][0]); ok && file != cluster.EncryptionFile {
		return nil, fmt.Errorf("the API server encrypts with %s, which Sealift did not create; rotate that by hand, as Kubernetes' documentation says", file)
	}
	return pod, nil
}

// CheckKeys refuses a host whose API server still has keys that its file lost. A new file would be filled from its memory, too.
func (h Host) CheckKeys() error {
	pod, err := h.manifest()
	if err != nil {
		return err
	}
	_, there, err := h.Read()
	if err != nil || there {
		return err
	}
	if _, encrypts := kubeadm.Args(pod.Spec.Containers[0].Command).Get(cluster.EncryptionArguments()[0][0]); encrypts {
		return fmt.Errorf("%s is missing or empty, and Secrets in etcd are encrypted with its keys; copy it from another control plane, or restore a snapshot that has it", cluster.EncryptionFile)
	}
	return nil
}

// Enable has the API server of a host use the existing file with the keys. rootfs is the folder with the host's files; empty means
// /.
func Enable(rootfs string) error { return Host{files.Host{Rootfs: rootfs}}.Enable() }

// Enable has the API server of this host use the file with the keys. A kubelet starts a server whose manifest changes again.
func (h Host) Enable() error {
	pod, err := h.manifest()
	if err != nil {
		return err
	}
	server, changed := &pod.Spec.Containers[0], false
	for _, a := range cluster.EncryptionArguments() {
		if _, ok := kubeadm.Args(server.Command).Get(a[0]); !ok {
			server.Command, changed = kubeadm.Args(server.Command).With(a[0], a[1]), true
		}
	}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == cluster.EncryptionVolume }) {
		folder, kind := filepath.Dir(cluster.EncryptionFile), corev1.HostPathDirectory
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: cluster.EncryptionVolume,
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder, Type: &kind}}})
		server.VolumeMounts = append(server.VolumeMounts, corev1.VolumeMount{Name: cluster.EncryptionVolume, MountPath: folder, ReadOnly: true})
		changed = true
	}
	if !changed {
		return nil
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		return err
	}
	return files.Replace(h.Path(kubeadm.APIServerManifest), text)
}

// Remember writes the arguments into kubeadm's configuration of the cluster, which upgrades and control planes that join read.
func Remember(ctx context.Context, client kubernetes.Interface) error {
	if err := kubeadm.EditConfig(ctx, client, withArguments); err != nil {
		return fmt.Errorf("change kubeadm's configuration of the cluster: %w", err)
	}
	return nil
}

// withArguments adds the arguments and the volume to a ClusterConfiguration of kubeadm.
func withArguments(text string) (string, error) {
	return kubeadm.EditServer(text, func(server *kubeadm.Server) error {
		err := server.AddFolder(cluster.EncryptionVolume, filepath.Dir(cluster.EncryptionFile))
		for _, a := range cluster.EncryptionArguments() {
			err = errors.Join(err, server.AddArgument(a[0], a[1]))
		}
		return err
	})
}

// FetchKeys has the API server of this control plane use the keys of another one.
func FetchKeys(text string) error {
	if text == "" {
		return errors.New("the control plane that asks has no keys for Secrets")
	}
	h := Host{}
	if _, err := h.manifest(); err != nil {
		return err
	}
	if err := h.Import([]byte(text)); err != nil {
		return err
	}
	return h.Enable()
}
