package encryption

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// manifest reads the manifest of this host's API server. It refuses one that encrypts with keys that Sealift did not make.
func (h Host) manifest() (*corev1.Pod, error) {
	pod, err := kubeadm.ReadServerPod(h.Path(kubeadm.APIServerManifest))
	if err != nil {
		return nil, err
	}
	if file, ok := cluster.Encryption().NamedBy(pod.Spec.Containers[0].Command); ok && file != cluster.EncryptionFile {
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
	if _, encrypts := cluster.Encryption().NamedBy(pod.Spec.Containers[0].Command); encrypts {
		return fmt.Errorf("%s is missing or empty, and Secrets in etcd are encrypted with its keys; copy it from another control plane, or restore a snapshot that has it", cluster.EncryptionFile)
	}
	return nil
}

// Enable has the API server of this host use the file with the keys. The kubelet restarts a server whose manifest changes.
func (h Host) Enable() error {
	if _, err := h.manifest(); err != nil {
		return err
	}
	_, err := cluster.Encryption().Enable(h.Path(kubeadm.APIServerManifest))
	return err
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
