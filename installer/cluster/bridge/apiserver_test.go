package bridge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/short"
)

// TestAPIServerIsReplaced uses a second API server beside another one, which is replaced. An API server ends if it cannot reach itself
// while it starts.
func TestAPIServerIsReplaced(t *testing.T) {
	t.Parallel()
	short.Root(t, "the sockets of another process")
	short.Skip(t, "a kube-apiserver")
	shared := []string{"--permit-port-sharing=true", "--bind-address=0.0.0.0"}
	c := controlplane.StartForTest(t, controlplane.Options{Arguments: shared})
	config := c.Config()
	config.WarningHandler = rest.NoWarnings{} // Endpoints are old, and API servers still write them
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the addresses of the Service kubernetes stay", func(t *testing.T) {
		addressesStay(t, client, discoveryv1.AddressTypeIPv4, "10.0.0.1")
		addressesStay(t, client, discoveryv1.AddressTypeIPv6, "fd00::1")
	})

	address := slices.Concat(shared, []string{"--advertise-address=10.1.2.3", "--endpoint-reconciler-type=lease"})
	if err := c.Restart(t.Context(), address...); err != nil {
		t.Fatal(err)
	}
	addresses := watchAddresses(t, c.Etcd())
	at, err := url.Parse(c.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{server: server{address: apart + at.Port(), bind: wildcard + at.Port(), port: port}, output: io.Discard, bound: time.Minute}
	p.prepare(t.Context())
	answers := ask(t.Context(), p.address+"/version")
	second := again(t, p)
	if err := p.wait(t.Context(), true, p.bound); err != nil {
		t.Fatal(err)
	}
	if err := p.while(t.Context(), p.keepAddresses(t.Context(), client), func() error { return c.Restart(t.Context(), address...) }); err != nil {
		t.Error(err)
	}
	if err := second.Wait(); err != nil {
		t.Error("the second server ended:", err)
	}
	said, failures := answers.take()
	for _, one := range failures {
		t.Error(one)
	}
	if len(said) == 0 {
		t.Error("nobody asked")
	}
	addresses()
	if left, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=sealift"}); err != nil || len(left.Items) > 0 {
		t.Errorf("%d policies are left, %v", len(left.Items), err)
	}
}

// watchAddresses checks that etcd always has an address of the Service kubernetes, from now until the returned function is called.
func watchAddresses(t *testing.T, endpoint string) (stop func()) {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	const key = "/registry/endpointslices/default/" + serviceName
	var from int64
	for deadline := time.Now().Add(time.Minute); from == 0; time.Sleep(50 * time.Millisecond) {
		got, err := etcd.Get(t.Context(), key)
		if err == nil && len(got.Kvs) > 0 {
			from = got.Kvs[0].ModRevision
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API server does not name itself: %v", err)
		}
	}
	return func() {
		t.Helper()
		const end = "/sealift/end"
		if _, err := etcd.Put(t.Context(), end, ""); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for response := range etcd.Watch(t.Context(), "/", clientv3.WithRange("0"), clientv3.WithRev(from)) {
			if err := response.Err(); err != nil {
				t.Fatal(err)
			}
			for _, event := range response.Events {
				switch string(event.Kv.Key) {
				case end:
					if seen == 0 {
						t.Error("the Service kubernetes was not seen")
					}
					return
				case key:
					seen++
					object, _, err := scheme.Codecs.UniversalDeserializer().Decode(event.Kv.Value, nil, nil)
					if slice, ok := object.(*discoveryv1.EndpointSlice); err != nil || !ok || len(slice.Endpoints) == 0 {
						t.Errorf("revision %d: the Service kubernetes has no address: %v, %v", event.Kv.ModRevision, object, err)
					}
				}
			}
		}
	}
}

// again starts another API server with the flags of the running one.
func again(t *testing.T, p *pair) *exec.Cmd {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.sockets[0].process))
	if err != nil {
		t.Fatal(err)
	}
	words := bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0})
	second := exec.Command(string(words[0]))
	for _, word := range words[1:] {
		second.Args = append(second.Args, string(word))
	}
	second.Args = append(second.Args, "--endpoint-reconciler-type=none")
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = second.Process.Kill(), second.Wait() })
	p.second = second.Process.Pid
	p.end = func(context.Context) error { return second.Process.Signal(syscall.SIGTERM) }
	return second
}

// addressesStay has an API server that removes its address and port when it ends: an empty slice is one for IPv4.
func addressesStay(t *testing.T, client kubernetes.Interface, family discoveryv1.AddressType, address string) {
	t.Helper()
	slices := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	name, port := "https", int32(6443)
	before := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}}, AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}}, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	before, err := slices.Create(t.Context(), before, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := endpointsOf(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var kept sync.WaitGroup
	kept.Go(func() { addresses.keep(ctx) })
	for range 2 {
		empty(t, slices, before)
		now := &discoveryv1.EndpointSlice{}
		for deadline := time.Now().Add(30 * time.Second); len(now.Endpoints) == 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the addresses are gone")
			}
			if now, err = slices.Get(t.Context(), serviceName, metav1.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if !equality.Semantic.DeepEqual(now.Endpoints, before.Endpoints) || !equality.Semantic.DeepEqual(now.Ports, before.Ports) || now.AddressType != family || now.Labels[discoveryv1.LabelServiceName] != serviceName {
			t.Errorf("it has %+v", now)
		}
	}
	stop()
	kept.Wait()
	empty(t, slices, before)
	addresses.keep(ctx) // which has ended
	if now, err := slices.Get(t.Context(), serviceName, metav1.GetOptions{}); err != nil || len(now.Endpoints) == 0 {
		t.Errorf("they are not written once more in the end: %v", err)
	}
	if err := slices.Delete(t.Context(), serviceName, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// empty changes a slice as an ending API server does.
func empty(t *testing.T, slices typedv1.EndpointSliceInterface, like *discoveryv1.EndpointSlice) {
	t.Helper()
	now, err := slices.Get(t.Context(), serviceName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now.Endpoints, now.Ports = nil, nil
	if now.AddressType == discoveryv1.AddressTypeIPv4 {
		if _, err := slices.Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := slices.Delete(t.Context(), serviceName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	now.ObjectMeta, now.AddressType = metav1.ObjectMeta{Name: serviceName, Labels: like.Labels}, discoveryv1.AddressTypeIPv4
	if _, err := slices.Create(t.Context(), now, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) { // the slice may be back
		t.Fatal(err)
	}
}
