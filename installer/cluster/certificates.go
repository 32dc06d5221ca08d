package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/installer/host/files"
)

// UploadCertificates puts the certificates of the cluster, encrypted, into a Secret that expires after two hours, for the
// control planes that join until then, and returns the key to them.
func UploadCertificates(ctx context.Context, version, address string) (key string, err error) {
	secret := make([]byte, 32) // AES-256, as in kubeadm
	if _, err := rand.Read(secret); err != nil {
		return "", err
	}
	key = hex.EncodeToString(secret)
	// in a file: others can read a command line. The version keeps kubeadm from asking a server for one, and the
	// address from looking for a default route.
	dir, err := files.MkdirTemp(os.TempDir(), "sealift-kubeadm-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, files.RemoveAll(dir)) }()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
certificateKey: %s
localAPIEndpoint:
  advertiseAddress: %s
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%s
`, key, address, version)
	if err := files.WriteMode(config, 0o600, []byte(text)); err != nil {
		return "", err
	}
	return key, run(ctx, io.Discard, "kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", config)
}
