package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// clusterWith makes a cluster with a control plane that is lost, and a worker that counts as Ready. Its etcd is elsewhere.
func clusterWith(t *testing.T) kubernetes.Interface {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(controlplane.ForTest(t))
	for _, row := range []struct {
		name, address string
		ready         corev1.ConditionStatus
	}{{"lost", "10.0.0.1", corev1.ConditionUnknown}, {"worker", "10.0.0.3", corev1.ConditionTrue}} {
		n, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: row.name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: row.ready}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: row.address}}
		if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "of-" + row.name}, Spec: corev1.PodSpec{NodeName: row.name, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	name, port := "https", int32(6443)
	_, err := client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports:     []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// whenGone does what the other API servers do some seconds after a host is lost, as late as when its node is gone.
func whenGone(ctx context.Context, client kubernetes.Interface, node string) error {
	for {
		_, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	slice, err := client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return err
	}
	slice.Endpoints = slice.Endpoints[1:]
	_, err = client.DiscoveryV1().EndpointSlices("default").Update(ctx, slice, metav1.UpdateOptions{})
	return err
}

func TestLostNodeLeftoversAreRemoved(t *testing.T) {
	client := clusterWith(t)
	r, err := FindLeftovers(t.Context(), client, "lost")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"node lost: is not Ready", "1 pods: default/of-lost", "API server 10.0.0.1:6443 on the list of the nodes' balancers"}
	if lines := r.Lines(); !slices.Equal(lines, want) {
		t.Errorf("it found %q", lines)
	}
	if err := r.Check(t.Context(), false); err != nil {
		t.Errorf("refused: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- whenGone(t.Context(), client, "lost") }()
	var said []string
	err = r.Remove(t.Context(), func(line string) { said = append(said, line) })
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	if want := []string{"node lost is deleted", "1 of its pods are deleted", "API server 10.0.0.1:6443 is on no list any more"}; !slices.Equal(said, want) {
		t.Errorf("it said %q", said)
	}
	if removed, err := RemovedNodes(t.Context(), client); err != nil || !removed["lost"].Gone() || len(removed) != 1 {
		t.Errorf("the record of removed nodes has %v, %v", removed, err)
	}
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "of-worker" {
		t.Errorf("pods are %v, %v", pods.Items, err)
	}
	if _, err := FindLeftovers(t.Context(), client, "lost"); err == nil || !strings.Contains(err.Error(), "knows no node lost; its nodes are: worker") {
		t.Errorf("once more: %v", err)
	}
}

func TestLiveNodeIsNotRemoved(t *testing.T) {
	client := clusterWith(t)
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil { // as a kubelet does
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			renewed, err := leases.Update(context.WithoutCancel(ctx), lease, metav1.UpdateOptions{})
			if err != nil {
				ended <- err
				return
			}
			lease = renewed
			time.Sleep(200 * time.Millisecond)
		}
		ended <- nil
	}()
	r, err := FindLeftovers(t.Context(), client, "worker")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context(), false); err == nil || !strings.Contains(err.Error(), "its kubelet reports; run 'sealift reset' there") {
		t.Errorf("got %v", err)
	}
	if err := r.Check(t.Context(), true); err != nil {
		t.Errorf("forced: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context(), false); err != nil { // it counts as Ready, and is silent
		t.Errorf("silent: %v", err)
	}
}
