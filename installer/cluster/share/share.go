// Package share lets a host that joins a cluster take what it lacks from a control plane: the script it starts with, sealift
// itself, and every file of the bundle that the node was made from, over TLS that is pinned to the cluster's CA.
//
// The package knows requests and digests. What a client can prove is asked of the caller and of package identity, whose matrix says
// who gets what. The package never writes. It gives secrets of the cluster to control planes alone: the whole Installer, the
// keys with which API servers encrypt Secrets, and the snapshot of a joint undo. It logs each such answer.
package share

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Port is where control planes listen, beside the API server's 6443 and the balancer's 6444.
const Port = 6445

// Address completes a host's name or address with the port.
func Address(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(Port))
}

// Cluster is what a node has to know of the cluster before it is part of it.
type Cluster struct {
	KubernetesVersion string `json:"kubernetesVersion"` // such as 1.36.3
	Name              string `json:"name"`
	Endpoint          string `json:"endpoint"` // host:port of the API for all nodes
	PodCIDR           string `json:"podCIDR"`  // in a dual-stack cluster two, with a comma between them
	ServiceCIDR       string `json:"serviceCIDR"`
	// Registry is the address of the registry that an add-on made in the cluster, if one did.
	Registry string `json:"registry,omitempty"`
	// APIServers are the host:port of each control plane.
	APIServers []string `json:"apiServers"`
	// Ready are the names of the nodes that report. No other host may have one of them.
	Ready []string `json:"ready,omitempty"`
	// Nodes are the names of all nodes. A token does not replace one of them.
	Nodes []string `json:"nodes,omitempty"`
	// Installer is the one that the cluster was made with: whole for a control plane, and what a join needs for a worker.
	Installer string `json:"installer,omitempty"`
	// Encryption is the file with the keys of the API servers, for a control plane: see package encryption.
	Encryption string `json:"encryption,omitempty"`
	// Rotation is the rotation of CAs that is under way: with private keys for a control plane, see package authority.
	Rotation string `json:"rotation,omitempty"`
}

// Networks lists the networks of pods and Services.
func (c Cluster) Networks() []string {
	return append(strings.Split(c.PodCIDR, ","), strings.Split(c.ServiceCIDR, ",")...)
}

// ErrToken says that the cluster does not take a token.
var ErrToken = errors.New("the cluster does not know the token: it is mistyped, has expired or was revoked; make another on a control plane with 'sealift token create'")

// ErrMember says that a host which shows the certificate of a kubelet is not a node of the cluster any more.
var ErrMember = errors.New("the cluster does not have this node")

// ErrRight says that a client has proved who it is, and may not have what it asks for.
var ErrRight = errors.New("only control planes may have it")

// ErrNoControlPlane says that a server has a certificate of the cluster, but does not prove that it is a control plane.
var ErrNoControlPlane = errors.New("it does not prove that it is a control plane of the cluster: it is a worker, or runs an earlier sealift; upgrade the control planes first")

// ErrCertificateKey says that a host which wants to become a control plane does not hold the key of the certificates.
var ErrCertificateKey = errors.New("the key of the certificates is wrong, or has expired; make another command on a control plane with 'sealift token create --control-plane'")

// CAError says that a server is not of the cluster that the CA's hash stands for.
type CAError struct {
	Address string
	Want    string
	Err     error
}

func (e *CAError) Error() string {
	if errors.Is(e.Err, ErrNoControlPlane) {
		return fmt.Sprintf("%s is not trusted: %v", e.Address, e.Err)
	}
	var invalid x509.CertificateInvalidError
	if errors.As(e.Err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Sprintf("%s is not trusted: %v; the clocks of the two hosts differ: set the one that is wrong, for instance with timedatectl set-time", e.Address, e.Err)
	}
	return fmt.Sprintf("%s is not trusted: %v; a control plane of the cluster prints the right command with 'sealift token create'", e.Address, e.Err)
}

func (e *CAError) Unwrap() error { return e.Err }

// keyHeader has the key of the certificates when a control plane joins. The connection is TLS, to a control plane that has them.
const keyHeader = "Sealift-Certificate-Key"

// The paths of the protocol. The script and sealift need no token: they are public, and clients know their digests.
const (
	scriptPath  = "/join.sh"
	binaryPath  = "/sealift"
	clusterPath = "/v1/cluster"
	indexPath   = "/v1/index"
	signPath    = "/v1/signature"
	missingPath = "/v1/missing"
	entryPath   = "/v1/entries/"

	// the index and the images of another bundle, by the digest of that index
	shelfPath   = "/v1/shelf/"
	shelfIndex  = "/index"
	shelfImages = "/images/"
)
