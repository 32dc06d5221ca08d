package install

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/spec"
)

// JoinRequest is the content of a command that joins this host to a cluster.
type JoinRequest struct {
	Client         *share.Client // of the control plane at Server, with Token and CAHash
	Server         string        // host:port
	Token          string
	CAHash         string
	ControlPlane   bool
	CertificateKey string // for a control plane
	Kubernetes     string // version that the cluster must have, such as 1.36.3; "" accepts any
	Endpoint       string // address where nodes must reach its API, with port 6443 if it has none; "" accepts any
	// Adjust applies the settings of this host to the cluster's Installer.
	Adjust func(shared *spec.Installer) (*spec.Installer, error)
}

// Options asks the control plane about the cluster, and completes the options of an install that joins this host. Files come from
// o.Open, or from the control plane if that is nil. Nothing is changed.
func (r JoinRequest) Options(ctx context.Context, o Options) (Options, error) {
	if r.ControlPlane {
		r.Client.CertificateKey = r.CertificateKey
	}
	c, err := r.Client.Cluster(ctx)
	if err != nil {
		return o, fmt.Errorf("join: %w\nnothing was changed", err)
	}
	if err := r.check(c); err != nil {
		return o, fmt.Errorf("%w; nothing was changed", err)
	}
	return r.complete(ctx, c, o), nil
}

// check refuses a cluster that is not the one of the command.
func (r JoinRequest) check(c share.Cluster) error {
	if r.Kubernetes != "" && r.Kubernetes != c.KubernetesVersion {
		return fmt.Errorf("the cluster runs Kubernetes %s, not %s", c.KubernetesVersion, r.Kubernetes)
	}
	wanted := r.Endpoint
	if wanted != "" && cluster.HostOf(wanted) == strings.Trim(wanted, "[]") {
		wanted = net.JoinHostPort(cluster.HostOf(wanted), "6443")
	}
	if wanted != "" && wanted != c.Endpoint {
		return fmt.Errorf("nodes of this cluster reach its API at %s, not at the load balancer %s", c.Endpoint, r.Endpoint)
	}
	return nil
}

func (r JoinRequest) complete(ctx context.Context, c share.Cluster, o Options) Options {
	o.Remote = true
	o.Adjust = func(*spec.Installer) (*spec.Installer, error) {
		shared, err := SharedInstaller(c)
		if err != nil {
			return nil, err
		}
		return r.Adjust(shared)
	}
	o.Join = &Join{Cluster: c, Server: r.Server, Token: r.Token, CAHash: r.CAHash, ControlPlane: r.ControlPlane, CertificateKey: r.CertificateKey,
		// A server has all files of its bundle.
		Missing: func(context.Context, []string) ([]string, error) { return nil, nil },
		Keys: func(ctx context.Context) (string, error) {
			now, err := r.Client.Cluster(ctx)
			return now.Encryption, err
		}}
	if o.Open == nil {
		o.Bundle, o.Open, o.Join.Missing = "of "+r.Server, func() (*bundle.Archive, error) { return r.Client.Archive(ctx) }, r.Client.Missing
	}
	return o
}

// Checks adds the role of the host, and the control planes that it must reach, to the options of a preflight.
func (j *Join) Checks(o PreflightOptions) PreflightOptions {
	o.Node.Join, o.Node.Primary = true, j.ControlPlane
	for _, address := range j.Cluster.APIServers {
		if host, _, err := net.SplitHostPort(address); err == nil && !slices.Contains(o.Node.PrimaryHosts, host) {
			o.Node.PrimaryHosts = append(o.Node.PrimaryHosts, host)
		}
	}
	return o
}
