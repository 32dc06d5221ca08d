// Package identity proves who is a control plane of the cluster, and defines who may request what.
//
// A control plane proves itself by the private key of the cluster's CA, which no other node has. With that key it signs a
// certificate for itself that has an extended key usage of Sealift's own. Nobody can get such a certificate from the cluster:
// the controller manager, which signs requests of kubelets and people, sets the usages itself and drops every extension of a
// request (k8s.io/kubernetes, pkg/controller/certificates/authority, PermissiveSigningPolicy). So an approver of requests
// cannot create a control plane. There is no further CA to keep, to carry or to rotate: the proof follows the cluster's CA.
//
// The certificate stays in the memory of the process that made it. It has no group, so the API server gives it no rights.
//
// A kubelet's certificate proves the name of a node, never a role. See Right for the whole matrix.
package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"strings"
	"time"
)

// controlPlaneUsage is the extended key usage of a control plane's certificate. It is below 2.25, whose numbers need no
// registration (ITU-T X.667).
var controlPlaneUsage = asn1.ObjectIdentifier{2, 25, 1730498113, 1}

// controlPlaneUser is what precedes the node's name in the common name of a control plane's certificate.
const controlPlaneUser = "sealift:control-plane:"

// What Kubernetes has in the certificate of a kubelet: https://kubernetes.io/docs/reference/access-authn-authz/node/
const (
	NodeUser  = "system:node:"
	NodeGroup = "system:nodes"
)

// ControlPlane returns the name of the control plane that a verified certificate belongs to. ok is false for every other
// certificate. The caller has verified that the cluster's CA signed it.
func ControlPlane(verified *x509.Certificate) (node string, ok bool) {
	node, ok = strings.CutPrefix(verified.Subject.CommonName, controlPlaneUser)
	return node, ok && node != "" && slices.ContainsFunc(verified.UnknownExtKeyUsage, controlPlaneUsage.Equal)
}

// Kubelet returns the name of the node whose kubelet a verified certificate belongs to. It says nothing about the node's role.
func Kubelet(verified *x509.Certificate) (node string, ok bool) {
	node, ok = strings.CutPrefix(verified.Subject.CommonName, NodeUser)
	return node, ok && node != "" && slices.Contains(verified.Subject.Organization, NodeGroup)
}

// Since returns the time from which a verified certificate of a node or a control plane can have been its own. The one that a control
// plane signs for itself begins long before that.
func Since(verified *x509.Certificate) time.Time {
	if _, ok := ControlPlane(verified); ok {
		return verified.NotBefore.Add(lateness)
	}
	return verified.NotBefore
}

// Client returns the name that a connection has proved by a verified certificate. Other clients are Anonymous.
func Client(state *tls.ConnectionState) (is Party, node string) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return Anonymous, ""
	}
	leaf := state.PeerCertificates[0]
	if node, ok := ControlPlane(leaf); ok {
		return Member, node
	}
	if node, ok := Kubelet(leaf); ok {
		return Worker, node
	}
	return Anonymous, ""
}
