package balancer

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// apiServer returns its name, and that it is ready by default.
func apiServer(t *testing.T, name string) (address string, ready *atomic.Bool) {
	t.Helper()
	ready = new(atomic.Bool)
	ready.Store(true)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && !ready.Load() {
			http.Error(w, "etcd failed", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), ready
}

// serve runs a balancer until the test ends.
func serve(t *testing.T, servers ...string) (b *Balancer, address string) {
	t.Helper()
	return serveWith(t, &Balancer{}, servers...)
}

func serveWith(t *testing.T, b *Balancer, servers ...string) (_ *Balancer, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.Log = slog.New(slog.DiscardHandler)
	b.Set(ctx, servers)
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b, l.Addr().String()
}

// ask makes a new connection.
func ask(t *testing.T, address string) (string, error) {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify, transport.DisableKeepAlives = true, true
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("https://" + address + "/")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// eventually waits generously.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after two minutes: %s", what)
		}
	}
}

func (b *Balancer) healthy() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.servers {
		n += 1 - rank(s)
	}
	return n
}

func TestHealthyServersTakeTurns(t *testing.T) {
	one, _ := apiServer(t, "one")
	two, _ := apiServer(t, "two")
	b, address := serve(t, one, two)
	eventually(t, "both are healthy", func() bool { return b.healthy() == 2 })
	var got []string
	for range 4 {
		name, err := ask(t, address)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	slices.Sort(got)
	if want := []string{"one", "one", "two", "two"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestUnreadyServerLosesItsConnections(t *testing.T) {
	one, ready := apiServer(t, "one")
	two, _ := apiServer(t, "two")
	b, address := serve(t, one)
	eventually(t, "it is healthy", func() bool { return b.healthy() == 1 })
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	eventually(t, "the connection is passed on", func() bool {
		s := b.servers[0]
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 1
	})
	b.Set(t.Context(), []string{one, two})
	ready.Store(false)
	eventually(t, "one is ill and two well", func() bool { return b.healthy() == 1 && rank(b.servers[1]) == 0 })
	if _, err := io.ReadAll(idle); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection to it ended with %v", err)
	}
	for range 3 {
		if name, err := ask(t, address); err != nil || name != "two" {
			t.Errorf("answered by %q, %v", name, err)
		}
	}
}

func TestUnhealthyServerIsUsedIfNoneIsHealthy(t *testing.T) {
	one, ready := apiServer(t, "one")
	ready.Store(false)
	_, address := serve(t, "127.0.0.1:1", one)
	if name, err := ask(t, address); err != nil || name != "one" {
		t.Errorf("answered by %q, %v", name, err)
	}
}

func TestConnectionIsHeldWhileOnlyServerRestarts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, address := serve(t, at)
	answer := make(chan string, 1)
	go func() {
		name, err := ask(t, address)
		if err != nil {
			name = err.Error()
		}
		answer <- name
	}()
	time.Sleep(3 * holdPause)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "one") }))
	if s.Listener, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	if got := <-answer; got != "one" {
		t.Errorf("answered by %q", got)
	}
}

func TestHeldConnectionTimesOut(t *testing.T) {
	_, address := serveWith(t, &Balancer{Hold: 2 * holdPause}, "127.0.0.1:1")
	if name, err := ask(t, address); err == nil {
		t.Errorf("answered by %q", name)
	}
}

func TestOnlyServerKeepsItsConnections(t *testing.T) {
	one, ready := apiServer(t, "one")
	b, address := serve(t, one)
	eventually(t, "it is healthy", func() bool { return b.healthy() == 1 })
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true
	client, reused := &http.Client{Transport: transport}, false
	get := func() {
		t.Helper()
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	get()
	ready.Store(false)
	eventually(t, "it is not ready", func() bool { return b.healthy() == 0 })
	if get(); !reused {
		t.Error("the connection to the only server was ended")
	}
}

func TestServersMayChange(t *testing.T) {
	one, _ := apiServer(t, "one")
	two, _ := apiServer(t, "two")
	b, address := serve(t, one)
	file := filepath.Join(t.TempDir(), "api-servers")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go b.Follow(ctx, file, func(context.Context) ([]string, error) { return []string{two}, nil })
	eventually(t, "the list is kept", func() bool {
		kept, err := ReadList(file)
		return err == nil && slices.Equal(kept, []string{two})
	})
	if name, err := ask(t, address); err != nil || name != "two" {
		t.Errorf("answered by %q, %v", name, err)
	}
	b.Set(ctx, nil)
	if got := b.Servers(); !slices.Equal(got, []string{two}) {
		t.Errorf("an empty answer left %v", got)
	}
}

// An API server on loopback does not name itself, so that the test does it.
func TestClusterNamesItsAPIServers(t *testing.T) {
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Discover(t.Context(), client); err == nil {
		t.Error("API servers where none said anything")
	}
	port := int32(6443)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.2"}}, {Addresses: []string{"10.0.0.1"}}},
		Ports:     []discoveryv1.EndpointPort{{Port: &port}},
	}
	if _, err := client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := Discover(t.Context(), client)
	if want := []string{"10.0.0.1:6443", "10.0.0.2:6443"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

// TestServerRefusingAnonymousRequestsIsReadyOnlyIfConfigured asks real API servers. One without the role that lets everybody ask
// answers as one does that has not read its roles yet.
func TestServerRefusingAnonymousRequestsIsReadyOnlyIfConfigured(t *testing.T) {
	c := controlplane.StartForTest(t, controlplane.Options{})
	address := strings.TrimPrefix(c.Config().Host, "https://")
	prober := NewProber()
	if err := prober.Ready(t.Context(), address); err != nil {
		t.Error(err)
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "system:public-info-viewer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has forgotten the role", func() bool {
		status, err := prober.Status(t.Context(), address)
		return err == nil && status == http.StatusForbidden
	})
	if err := prober.Ready(t.Context(), address); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a server that answers 403: %v", err)
	}
	if err := c.Restart(t.Context(), "--anonymous-auth=false"); err != nil {
		t.Fatal(err)
	}
	if status, err := prober.Status(t.Context(), address); err != nil || status != http.StatusUnauthorized {
		t.Fatalf("it answers %d, %v", status, err)
	}
	if err := prober.Ready(t.Context(), address); err != nil {
		t.Errorf("a server without anonymous requests: %v", err)
	}
}

func TestEndpointIncludesPort(t *testing.T) {
	if want := "127.0.0.1:" + strconv.Itoa(Port); Endpoint != want {
		t.Errorf("got %s, want %s", Endpoint, want)
	}
}
