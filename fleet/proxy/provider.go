package proxy

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/helm/source"
)

// Provider keeps releases on clusters with a package manager.
type Provider interface {
	// Read returns the state of a release on a cluster. The zero value means that it is not installed.
	Read(ctx context.Context, t Target) (chartplan.Installed, error)
	// Version returns the version that a release should have. A proxy may name a range, or nothing. A release that has a version may
	// need no look at the chart.
	Version(ctx context.Context, t Target, has string) (string, error)
	// Run runs an operation, and returns the resulting state of the cluster. It may have something in spite of an error.
	Run(ctx context.Context, t Target, o chartplan.Operation) (chartplan.Installed, error)
	// Remove uninstalls a release, if there is one.
	Remove(ctx context.Context, t Target) error
}

// Target is a release on a cluster.
type Target struct {
	Cluster *rest.Config
	Proxy   *caaph.HelmReleaseProxy
	// Name is the name of the release.
	Name string
	// Access configures how charts are fetched.
	Access source.Access
	// Mirrors are where the cluster finds images.
	Mirrors []ocm.ImageMirror
}
