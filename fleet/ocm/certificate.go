package ocm

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// ClusterLabel of an object on the hub names the cluster that it belongs to.
const ClusterLabel = "open-cluster-management.io/cluster-name"

// CertificatesName names the ConfigMap in which the hub hands the certificates of an add-on's agent over.
func CertificatesName(addOn string) string { return addOn + "-certificates" }

// CertificateKey is the key of that ConfigMap with the certificate of a signer. Names of signers may be longer than keys.
func CertificateKey(signer string) string {
	if name := strings.ReplaceAll(signer, "/", "-"); len(name) <= 200 {
		return name + ".crt"
	}
	sum := sha256.Sum256([]byte(signer))
	return hex.EncodeToString(sum[:]) + ".crt"
}
