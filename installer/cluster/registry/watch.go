package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// name is that of the add-on, of its namespace and of its Service.
const name = "registry"

const (
	pause    = time.Minute
	passTime = 30 * time.Second
)

// Watch keeps the trust of this node until ctx ends, and the control planes that its containerd asks for images, if mirror is set. It asks
// the API as the kubelet, which may read Services and EndpointSlices.
func Watch(ctx context.Context, mirror bool, log *slog.Logger) {
	var told poll.Told
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		changed, err := pass(ctx, mirror)
		if told.IsNew(ctx, err) {
			log.Warn("containerd may not know the cluster's registries", "error", err)
		}
		if changed {
			log.Info("the registries that containerd asks changed")
		}
		return pause
	})
}

// pass looks at the cluster once.
func pass(ctx context.Context, mirror bool) (changed bool, err error) {
	if !mirror { // also while there is no API
		if changed, err = (Mirror{}).Set(nil); err != nil {
			return changed, err
		}
	}
	client, err := cluster.Client(kubeadm.KubeletKubeconfig)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	followed, err := Follow(ctx, client, Trust{})
	if mirror {
		asked, mirrorErr := FollowControlPlanes(ctx, client, Mirror{})
		changed, err = changed || asked, errors.Join(err, mirrorErr)
	}
	return changed || followed, err
}

// FollowControlPlanes lets containerd ask the control planes that the cluster has. While the cluster cannot be asked, they stay as they are.
func FollowControlPlanes(ctx context.Context, client kubernetes.Interface, m Mirror) (changed bool, err error) {
	servers, err := balancer.Discover(ctx, client)
	if err != nil {
		return false, err
	}
	name, err := host.Name()
	if err != nil {
		return false, err
	}
	own, err := ownAddresses()
	if err != nil {
		return false, err
	}
	return m.Set(mirrors(servers, own, name, share.Address))
}

// Follow trusts the registry that the cluster has. While the cluster cannot be asked, the trust stays as it is. So it does if another
// registry than the add-on's has its place.
func Follow(ctx context.Context, client kubernetes.Interface, t Trust) (changed bool, err error) {
	service, err := client.CoreV1().Services(name).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return t.Set(netip.Addr{})
	}
	if err != nil {
		return false, fmt.Errorf("the registry in the cluster: %w", err)
	}
	if !(kube.Set{Name: name}).Holds(service) {
		return false, nil
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return false, fmt.Errorf("the Service %s/%s has the address %q: %w", name, name, service.Spec.ClusterIP, err)
	}
	return t.Set(address)
}
