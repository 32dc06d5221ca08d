package readdress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/kube/ensure"
)

func joined(address string) string { return net.JoinHostPort(address, cluster.APIPort) }

// settings are the ConfigMaps of a cluster that may name the address of a control plane: kubeadm's, that of joining hosts, that of
// kube-proxy, and kURL's.
var settings = []struct{ namespace, name string }{
	{metav1.NamespaceSystem, kubeadm.ConfigMap}, {metav1.NamespacePublic, "cluster-info"},
	{metav1.NamespaceSystem, "kube-proxy"}, {metav1.NamespaceSystem, "kurl-config"},
}

// configure writes the new address into the cluster's configuration, and returns the changed ConfigMaps.
func configure(ctx context.Context, client kubernetes.Interface, c Change, tell func(string)) error {
	for _, s := range settings {
		changed := false
		err := ensure.EditConfigMap(ctx, client.CoreV1(), s.namespace, s.name, func(data map[string]string) (bool, error) {
			changed = c.rewriteConfig(data)
			return changed, nil
		})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write the new address: %w", err)
		}
		if changed {
			tell(fmt.Sprintf("ConfigMap %s/%s names %s now", s.namespace, s.name, c.To))
		}
	}
	return nil
}

// rewriteConfig writes the new address into the data of a ConfigMap, and reports whether it named the old one.
func (c Change) rewriteConfig(data map[string]string) (changed bool) {
	for key, text := range data {
		out, places := replace(text, c.From, c.To)
		data[key] = out
		changed = changed || places > 0
	}
	return changed
}

func (r *Readdress) configure(ctx context.Context) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	return r.until(ctx, "the cluster's configuration", func(ctx context.Context) error { // a busy API server may not answer in time
		return configure(ctx, client, r.Change, func(line string) { fmt.Fprintln(r.Log, line) })
	})
}

// waitWorks waits until the cluster works with this node at its new address. Another control plane proves that by a request that goes
// through it to the kubelet of this node.
func (r *Readdress) waitWorks(ctx context.Context) error {
	if err := r.until(ctx, "node "+r.Node, func(ctx context.Context) error {
		client, err := cluster.Client(r.host.Path(kubeadm.KubeletKubeconfig)) // its certificate may change
		if err != nil {
			return err
		}
		return nodeHas(ctx, client, r.Node, r.To)
	}); err != nil || len(r.Others) == 0 {
		return err
	}
	return r.until(ctx, "another control plane to reach this node", r.reachedByOthers)
}

// nodeHas requires a node to be Ready with an address.
func nodeHas(ctx context.Context, client kubernetes.Interface, name string, address netip.Addr) error {
	n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case !slices.Contains(addressesOf(n), address):
		return fmt.Errorf("its kubelet has not told the new address, and has told %v", addressesOf(n))
	case !cluster.NodeReady(n):
		return errors.New("it is not Ready")
	}
	return nil
}

// reachedByOthers requires one of the other API servers to reach the kubelet of this node.
func (r *Readdress) reachedByOthers(ctx context.Context) error {
	var errs []error
	for _, other := range r.Others {
		config, err := cluster.Config(r.host.Path(kubeadm.AdminKubeconfig))
		if err != nil {
			return err
		}
		config.Host, config.Timeout = "https://"+joined(other), askTime
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		err = client.CoreV1().RESTClient().Get().Resource("nodes").Name(r.Node).SubResource("proxy").Suffix("healthz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("through %s: %w", other, err))
	}
	return errors.Join(errs...)
}

// restartPods deletes the pods of this node that have the network of the host and were started with the old address: Kubernetes does
// not change the address of a pod. Their creators recreate them. The kubelet itself may delete them, so that a worker can.
func (r *Readdress) restartPods(ctx context.Context) error {
	client, err := cluster.Client(r.host.Path(kubeadm.KubeletKubeconfig))
	if err != nil {
		return err
	}
	return restartPods(ctx, client, r.Node, r.From, func(line string) { fmt.Fprintln(r.Log, line) })
}

func restartPods(ctx context.Context, client kubernetes.Interface, node string, from netip.Addr, tell func(string)) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	for _, p := range pods.Items {
		if _, static := p.Annotations[corev1.MirrorPodAnnotationKey]; static || !p.Spec.HostNetwork || p.Status.PodIP != from.String() {
			continue
		}
		if len(p.OwnerReferences) == 0 {
			tell(fmt.Sprintf("pod %s/%s keeps the address %s: nothing would make it again", p.Namespace, p.Name, from))
			continue
		}
		err := client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("restart pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		tell(fmt.Sprintf("pod %s/%s is restarted", p.Namespace, p.Name))
	}
	return nil
}

// finish waits until the cluster's list of API servers has only the new address: the balancers of all nodes read it.
func (r *Readdress) finish(ctx context.Context) error {
	if !r.ControlPlane {
		return nil
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	return r.until(ctx, "the list of API servers", func(ctx context.Context) error {
		servers, err := balancer.Discover(ctx, client)
		if err == nil && (!slices.Contains(servers, joined(r.To.String())) || slices.Contains(servers, joined(r.From.String()))) {
			err = fmt.Errorf("it has %v", servers)
		}
		return err
	})
}
