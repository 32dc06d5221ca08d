// Package controlplane is this host as a control plane: its view of the cluster, and its commands for joining hosts.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// advertised is the annotation with which kubeadm notes, in the manifest of an API server, where it can be reached: host:port.
const advertised = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"

// registryNamespaces are where add-ons have the Service "registry" of the cluster's registry: the catalogue's, and kURL's.
func registryNamespaces() []string { return []string{"registry", "kurl"} }

// Administrator is this host as a control plane: its address, and the cluster's API with all rights.
type Administrator struct {
	Client  clientset.Interface
	Address string // of the host
}

// AsAdministrator acquires the rights of a control plane. It fails on other hosts.
func AsAdministrator() (Administrator, error) {
	manifest, err := regularfile.ReadFile(kubeadm.APIServerManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return Administrator{}, errors.New("this host is not a control plane; run the command on one, as root")
	}
	if err != nil {
		return Administrator{}, fmt.Errorf("act as a control plane, which needs root: %w", err)
	}
	address, err := Advertised(manifest)
	if err != nil {
		return Administrator{}, err
	}
	client, err := cluster.Client(kubeadm.AdminKubeconfig)
	return Administrator{Client: client, Address: address}, err
}

// Advertised reads the address of a control plane from the manifest of its API server.
func Advertised(manifest []byte) (address string, err error) {
	var pod struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return "", fmt.Errorf("%s: %w", kubeadm.APIServerManifest, err)
	}
	endpoint := pod.Metadata.Annotations[advertised]
	if endpoint == "" {
		return "", fmt.Errorf("%s does not tell the address of this control plane; kubeadm notes it there as the annotation %s", kubeadm.APIServerManifest, advertised)
	}
	if address, _, err = net.SplitHostPort(endpoint); err != nil {
		return "", fmt.Errorf("%s: %w", kubeadm.APIServerManifest, err)
	}
	return address, nil
}

// Script is the first script of a joining host. root is the install root of this one.
func (a Administrator) Script(root string) (*share.Script, error) {
	ca, err := identity.ReadCA(filepath.Join(kubeadm.PKI, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	return &share.Script{CA: ca, Address: share.Address(a.Address), Programs: Programs(root)}, nil
}

// Programs are those that this host gives out. root is its install root.
func Programs(root string) share.Programs {
	return share.Programs{Platform: host.Platform, Binary: node.Binary, Root: root}
}

// Invitation describes who may join: for how long, and as what.
type Invitation struct {
	For          time.Duration
	Description  string
	ControlPlane bool
	Root         string // the install root of this host
	// From is the URL of an Installer on a server that has the host's files; empty: this control plane gives them out.
	From string
}

// UncheckedJoinCommand creates a token and returns the command by which a host becomes a node. For a control plane it also puts the
// cluster's certificates, encrypted, where that one finds them; they stay for two hours. Call exclusion.JoinCommand instead: it also
// checks whether a control plane may join now.
func (a Administrator) UncheckedJoinCommand(ctx context.Context, i Invitation) (string, error) {
	script, err := a.Script(i.Root)
	if err != nil {
		return "", err
	}
	key := ""
	if i.ControlPlane {
		c, err := a.Cluster(ctx)
		if err != nil {
			return "", err
		}
		if key, err = cluster.UploadCertificates(ctx, a.Client, c.KubernetesVersion, a.Address); err != nil {
			return "", err
		}
	}
	whole, err := token.Create(ctx, a.Client, i.For, i.Description)
	if err != nil {
		return "", err
	}
	if i.From != "" {
		return script.OnlineCommand(i.From, whole, key)
	}
	return script.Command(whole, key)
}

// RenewToken makes a token with which one worker gets a certificate again. A control plane renews its own.
func (a Administrator) RenewToken(ctx context.Context, ttl time.Duration, description, node string) (string, error) {
	n, err := a.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("the cluster has no node %s; 'kubectl get nodes' lists all, and 'sealift token create' lets a new host join", node)
	}
	if err != nil {
		return "", err
	}
	if _, controlPlane := n.Labels[cluster.ControlPlaneLabel]; controlPlane {
		return "", fmt.Errorf("node %s is a control plane: run 'sealift certs renew' there", node)
	}
	return token.CreateToRenew(ctx, a.Client, ttl, description, node)
}

// Endpoint is the host:port of the API for all nodes.
func (a Administrator) Endpoint(ctx context.Context) (string, error) {
	config, err := kubeadm.ReadConfig(ctx, a.Client)
	return config.ControlPlaneEndpoint, err
}

// Cluster returns what a node has to know about the cluster.
func (a Administrator) Cluster(ctx context.Context) (share.Cluster, error) {
	config, err := kubeadm.ReadConfig(ctx, a.Client)
	if err != nil {
		return share.Cluster{}, err
	}
	c := share.Cluster{
		KubernetesVersion: strings.TrimPrefix(config.KubernetesVersion, "v"), Name: config.ClusterName, Endpoint: config.ControlPlaneEndpoint,
		PodCIDR: config.Networking.PodSubnet, ServiceCIDR: config.Networking.ServiceSubnet,
	}
	if c.APIServers, err = balancer.Discover(ctx, a.Client); err != nil {
		return c, err
	}
	for _, namespace := range registryNamespaces() {
		registry, err := a.Client.CoreV1().Services(namespace).Get(ctx, "registry", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return c, fmt.Errorf("the registry in the cluster: %w", err)
		}
		if err == nil && c.Registry == "" {
			c.Registry = registry.Spec.ClusterIP
		}
	}
	nodes, err := a.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, fmt.Errorf("the nodes of the cluster: %w", err)
	}
	for _, n := range nodes.Items {
		c.Nodes = append(c.Nodes, n.Name)
		if cluster.NodeReady(&n) {
			c.Ready = append(c.Ready, n.Name)
		}
	}
	return c, nil
}

// Leftovers are the cluster's leftovers of another node.
func (a Administrator) Leftovers(ctx context.Context, node string) (*cluster.NodeLeftovers, error) {
	if own, err := host.Name(); err != nil || own == node {
		return nil, errors.Join(fmt.Errorf("node %s is this host; it leaves the cluster with 'sealift reset'", node), err)
	}
	return cluster.FindLeftovers(ctx, a.Client, node)
}
