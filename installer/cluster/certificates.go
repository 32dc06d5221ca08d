package cluster

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// The Secret in which kubeadm keeps the sealed certificates, and its annotation with the salt of their key. kubeadm drops the annotation.
const (
	sealedCertificates = "kubeadm-certs"
	saltAnnotation     = "sealift.dev/salt"
)

// UploadCertificates puts the certificates of the cluster, encrypted, into a Secret that expires after two hours, for the
// control planes that join until then, and returns the key to them: that of the last upload if it has not expired, because hosts may
// be joining with it.
func UploadCertificates(ctx context.Context, client kubernetes.Interface, version, address string) (key string, err error) {
	ca, err := regularfile.ReadFile(filepath.Join(kubeadm.PKI, "ca.key"))
	if err != nil {
		return "", fmt.Errorf("the key of the cluster's CA: %w", err)
	}
	salt, key, err := certificateKey(ctx, client, ca)
	if err != nil {
		return "", err
	}
	if err := upload(ctx, key, version, address); err != nil {
		return "", err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{saltAnnotation: salt}}})
	if err == nil {
		_, err = client.CoreV1().Secrets(metav1.NamespaceSystem).Patch(ctx, sealedCertificates, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return key, err
}

// certificateKey returns the key with which the certificates are sealed now, or a new one if nobody has that. It is in no file: each
// control plane derives it from the CA's key and a salt. The salt may be public.
func certificateKey(ctx context.Context, client kubernetes.Interface, ca []byte) (salt, key string, err error) {
	derive := func() string {
		mac := hmac.New(sha256.New, ca) // 32 bytes for AES-256, as in kubeadm
		mac.Write([]byte(sealedCertificates + " " + salt))
		return hex.EncodeToString(mac.Sum(nil))
	}
	stored, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, sealedCertificates, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("the certificates for control planes that join: %w", err)
	}
	if err == nil {
		salt = stored.Annotations[saltAnnotation]
		if key = derive(); salt != "" && opensAny(key, stored.Data) {
			return salt, key, nil
		}
	}
	salt = rand.Text()
	return salt, derive(), nil
}

// HoldsCertificateKey reports whether the key opens the certificates that kubeadm has stored in the cluster for joining control planes. An
// error says that there are none.
func HoldsCertificateKey(ctx context.Context, client kubernetes.Interface, key string) (bool, error) {
	stored, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, sealedCertificates, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return opensAny(key, stored.Data), nil
}

// opensAny reports whether a key opens one of some texts: all are sealed with one key.
func opensAny(key string, sealed map[string][]byte) bool {
	for _, one := range sealed {
		if opens(key, one) {
			return true
		}
	}
	return false
}

// opens reports whether a key of kubeadm's, 32 bytes in hexadecimal, opens what kubeadm has sealed: AES-GCM, behind its nonce.
func opens(key string, sealed []byte) bool {
	raw, err := hex.DecodeString(key)
	if err != nil {
		return false
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return false
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil || len(sealed) < gcm.NonceSize() {
		return false
	}
	_, err = gcm.Open(nil, sealed[:gcm.NonceSize()], sealed[gcm.NonceSize():], nil)
	return err == nil
}

// upload lets kubeadm seal the certificates with a key.
func upload(ctx context.Context, key, version, address string) (err error) {
	// in a file: others can read a command line. The version keeps kubeadm from asking a server for one, and the
	// address from looking for a default route.
	dir, err := files.MkdirTemp(os.TempDir(), "sealift-kubeadm-")
	if err != nil {
		return err
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
		return err
	}
	return run(ctx, io.Discard, "kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", config)
}
