package approver

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/token"
)

// partyOf returns who sends a request, as the API server has authenticated it, and the name by which: of a node, or the ID of a token.
func partyOf(r certificatesv1.CertificateSigningRequestSpec) (is identity.Party, name string) {
	if node, ok := strings.CutPrefix(r.Username, identity.NodeUser); ok && slices.Contains(r.Groups, identity.NodeGroup) {
		return identity.Worker, node
	}
	if id, ok := strings.CutPrefix(r.Username, token.User); ok && slices.Contains(r.Groups, token.NodeGroup) {
		return identity.Token, id
	}
	return identity.Anonymous, ""
}

// parseRequest reads the one certificate request of a text, and verifies that its sender has the key.
func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it has no certificate request, or more than one")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return r, r.CheckSignature()
}

// nodeOf returns the node of a request: the subject must be a kubelet's, and nothing else.
func nodeOf(asked *x509.CertificateRequest) (string, error) {
	node, ok := strings.CutPrefix(asked.Subject.CommonName, identity.NodeUser)
	if !ok || !slices.Equal(asked.Subject.Organization, []string{identity.NodeGroup}) {
		return "", fmt.Errorf("its subject %q is not that of a kubelet", asked.Subject)
	}
	if wrong := validation.IsDNS1123Subdomain(node); len(wrong) > 0 {
		return node, fmt.Errorf("%q cannot be the name of a node: %s", node, strings.Join(wrong, "; "))
	}
	return node, nil
}

// checkUsages requires a request to be for one use alone. The key of an elliptic curve does without key encipherment.
func checkUsages(r certificatesv1.CertificateSigningRequestSpec, use certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, use}
	if !slices.Contains(r.Usages, use) || slices.ContainsFunc(r.Usages, func(u certificatesv1.KeyUsage) bool { return !slices.Contains(allowed, u) }) {
		return fmt.Errorf("it is for %v, not only for %s", r.Usages, use)
	}
	return nil
}
