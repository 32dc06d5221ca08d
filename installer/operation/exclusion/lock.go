package exclusion

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/operation/leader"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/lease"
)

// The Lease of work that restarts control planes. It outlives the restart of the only API server.
const (
	leaseName     = "sealift-upgrade"
	leaseDuration = 5 * time.Minute
	leaseDeadline = 4 * time.Minute
)

// JoinCommand returns the command by which a host becomes a node. It refuses a control plane while an operation is half done that its
// join would harm: the error is an *Error.
func JoinCommand(ctx context.Context, admin controlplane.Administrator, i controlplane.Invitation) (string, error) {
	if i.ControlPlane {
		if err := (Host{Root: i.Root}).Check(ctx, admin.Client, JoinControlPlane); err != nil {
			return "", err
		}
	}
	return admin.UncheckedJoinCommand(ctx, i)
}

// WithClusterLock runs work that restarts control planes, or that uses the agents of nodes, while no other host of the cluster does such
// work: an upgrade, a renewal of certificates, or a delivery of images. waiting gets the holder of the Lease if there is one. The context
// of work ends when the Lease is lost.
//
// work does not begin while another operation is half done that it would harm: see Excludes.
func WithClusterLock(ctx context.Context, c *kube.Cluster, on Host, begins Operation, waiting func(holder string), work func(context.Context) error) error {
	client, err := kubernetes.NewForConfigAndClient(c.Config())
	if err != nil {
		return err
	}
	return lease.Run(ctx, c, lease.Options{
		Namespace: metav1.NamespaceSystem, Name: leaseName, Duration: leaseDuration, RenewDeadline: leaseDeadline, Tries: 1, Waiting: waiting, Outage: leader.Outage(),
	}, func(ctx context.Context) error {
		if err := leader.RetryDuringOutage(ctx, func(ctx context.Context) error { return on.Check(ctx, client, begins) }); err != nil {
			return err
		}
		return work(ctx)
	})
}
