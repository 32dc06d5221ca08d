package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// UploadCertificates puts the certificates of the cluster, encrypted, into a Secret that expires after two hours, for the
// control planes that join until then, and returns the key to them.
func UploadCertificates(ctx context.Context, version, address string) (key string, err error) {
	secret := make([]byte, 32) // AES-256, as kubeadm has it
	if _, err := rand.Read(secret); err != nil {
		return "", err
	}
	key = hex.EncodeToString(secret)
	// in a file: others can read a command line. The version keeps kubeadm from asking a server for one, and the
	// address from looking for a default route.
	f, err := os.CreateTemp("", "sealift-kubeadm-*.yaml")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = fmt.Fprintf(f, `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
certificateKey: %s
localAPIEndpoint:
  advertiseAddress: %s
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%s
`, key, address, version)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return key, run(ctx, io.Discard, "kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", f.Name())
}
