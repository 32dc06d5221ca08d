package bridge

import (
	"context"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/sealift/sealift/internal/poll"
)

// endpoints has the addresses and ports of the Service kubernetes. An API server that ends removes its own, and pods would not reach
// the other one at the same address. A policy forbids that: see guard. Without a policy, keep rewrites them.
type endpoints struct {
	client typedv1.EndpointSliceInterface
	slice  *discoveryv1.EndpointSlice
}

const serviceName = "kubernetes"

func endpointsOf(ctx context.Context, client kubernetes.Interface) (e endpoints, err error) {
	e.client = client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	if e.slice, err = e.client.Get(ctx, serviceName, metav1.GetOptions{}); err != nil {
		return e, fmt.Errorf("the addresses of the Service %s are not kept: %w", serviceName, err)
	}
	return e, nil
}

// keep rewrites missing endpoints until ctx ends, and once more at the end.
func (e endpoints) keep(ctx context.Context) {
	pass := func(ctx context.Context) time.Duration {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), interrupted)
		defer cancel()
		_ = e.write(bounded) // a server ends or etcd restarts; the next attempt may succeed
		return pause
	}
	poll.Repeat(ctx, pass)
	pass(ctx)
}

func (e endpoints) write(ctx context.Context) error {
	now, err := e.client.Get(ctx, serviceName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case len(now.Endpoints) >= len(e.slice.Endpoints):
		return nil
	case now.AddressType == e.slice.AddressType:
		now.Endpoints, now.Ports = e.slice.Endpoints, e.slice.Ports
		_, err = e.client.Update(ctx, now, metav1.UpdateOptions{})
		return err
	default: // an empty slice is one for IPv4, and that never changes
		if err := e.client.Delete(ctx, serviceName, *metav1.NewRVDeletionPrecondition(now.ResourceVersion)); err != nil {
			return err
		}
	}
	again := e.slice.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Name: again.Name, Namespace: again.Namespace, Labels: again.Labels}
	_, err = e.client.Create(ctx, again, metav1.CreateOptions{})
	return err
}
