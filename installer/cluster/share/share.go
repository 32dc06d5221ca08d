// Package share lets a joining host fetch what it lacks from a control plane: its first script, sealift itself, and every file of
// the node's bundle, over TLS pinned to the cluster's CA.
//
// The package knows requests and digests. The caller and package identity check what a client can prove; the latter's matrix
// defines who gets what. The package never writes. It sends secrets of the cluster only to control planes: the whole Installer, the
// keys with which API servers encrypt Secrets, and the snapshot of a joint undo. It logs each such answer.
package share

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/journal/node"
)

// Port is the port of control planes, beside the API server's 6443 and the balancer's 6444.
const Port = 6445

// Address completes a host's name or address with the port.
func Address(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(Port))
}

// Cluster is the cluster's data that a node needs before it is part of it.
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
	// Installer is the one of the cluster: whole for a control plane, and the part that a join needs for a worker.
	Installer string `json:"installer,omitempty"`
	// Encryption is the file with the keys of the API servers, for a control plane: see package encryption.
	Encryption string `json:"encryption,omitempty"`
	// Authentication is the file that tells API servers whose tokens they accept, for a control plane of a cluster that has it: see package
	// oidc. It has no secrets.
	Authentication string `json:"authentication,omitempty"`
	// NoControlPlane says why no control plane may join now, because of an operation that is half done: for hosts that could. "" if one may.
	NoControlPlane string `json:"noControlPlane,omitempty"`
	// Rotation is the rotation of CAs that is under way: with private keys for a control plane, see package authority.
	Rotation string `json:"rotation,omitempty"`
}

// Networks are the networks of pods and Services.
func (c Cluster) Networks() node.ClusterNetworks {
	return node.ClusterNetworks{Pods: c.PodCIDR, Services: c.ServiceCIDR}
}

// ErrToken means that the cluster does not accept a token.
var ErrToken = errors.New("the cluster does not know the token: it is mistyped, has expired or was revoked; make another on a control plane with 'sealift token create'")

// ErrMember means that a host with the certificate of a kubelet is no longer a node of the cluster.
var ErrMember = errors.New("the cluster does not have this node")

// ErrRight means that a client has proved its identity, but has no right to its request.
var ErrRight = errors.New("the certificate or token gives no right to it")

// ErrNoControlPlane means that a server has a certificate of the cluster, but does not prove that it is a control plane.
var ErrNoControlPlane = errors.New("it does not prove that it is a control plane of the cluster: it is a worker, or runs an earlier sealift; upgrade the control planes first")

// ErrCertificateKey means that a host that wants to become a control plane does not hold the key of the certificates.
var ErrCertificateKey = errors.New("the key of the certificates is wrong, or has expired; make another command on a control plane with 'sealift token create --control-plane'")

// CAError means that a server is not of the cluster that the CA's hash stands for.
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
	verdictPath = "/v1/verdict"
	missingPath = "/v1/missing"
	entryPath   = "/v1/entries/"

	imagesPath = "/v2/"    // the OCI distribution protocol: see package mirror
	blobsPath  = peer.Path // for nodes that another control plane sends here

	// the index, the verdict and the images of another bundle, by the digest of that index
	shelfPath    = "/v1/shelf/"
	shelfIndex   = "/index"
	shelfVerdict = "/verdict"
	shelfImages  = "/images/"
)
