package ocm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// ClusterLabel of an object on the hub names the cluster that it belongs to.
const ClusterLabel = "open-cluster-management.io/cluster-name"

// Certificate is a certificate that the hub hands over to the agent of a cluster. It is public; the key never leaves the
// cluster.
type Certificate struct {
	// PEM is the certificate.
	PEM string `json:"pem"`
	// Since is the time of the request.
	Since time.Time `json:"since"`
}

// CertificateAnnotation is the annotation of a ManagedClusterAddOn with the certificate of a signer, as JSON. Names of signers
// may be longer than names of annotations.
func CertificateAnnotation(signer string) string {
	sum := sha256.Sum256([]byte(signer))
	return "fleet.sealift.dev/certificate-" + hex.EncodeToString(sum[:20])
}

// Certificate returns the latest certificate of a signer that the hub handed over, or a zero one.
func (a *ManagedClusterAddOn) Certificate(signer string) (c Certificate) {
	if json.Unmarshal([]byte(a.Annotations[CertificateAnnotation(signer)]), &c) != nil {
		return Certificate{} // it was changed; the agent asks for another one
	}
	return c
}
