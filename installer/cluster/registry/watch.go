package registry

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// name is that of the add-on, of its namespace and of its Service.
const name = "registry"

const (
	pause    = time.Minute
	passTime = 30 * time.Second
)

// Watch keeps the trust of this node until ctx ends. It asks the API as the kubelet, which may read Services.
func Watch(ctx context.Context, log *slog.Logger) {
	said := ""
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		changed, err := pass(ctx, Trust{})
		switch {
		case err == nil:
			said = ""
		case ctx.Err() == nil && err.Error() != said: // the same error is not repeated every minute
			said = err.Error()
			log.Warn("containerd may not know the cluster's registry", "error", err)
		}
		if changed {
			log.Info("containerd's trust in the cluster's registry changed")
		}
		return pause
	})
}

// pass looks at the cluster once.
func pass(ctx context.Context, t Trust) (changed bool, err error) {
	client, err := cluster.Client(kubeadm.KubeletKubeconfig)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	return Follow(ctx, client, t)
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
