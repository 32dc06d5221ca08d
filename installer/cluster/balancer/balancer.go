// Package balancer gives every node one address of the Kubernetes API that works while any control plane does: a TCP proxy
// on the node itself, which knows the control planes and their health.
//
// The package copies bytes and asks /readyz. It does not end TLS, so clients see the API server's own certificate and the proxy
// cannot read their requests.
package balancer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/poll"
)

// Port is where a node's balancer listens, on loopback.
const Port = 6444

// Endpoint is the API on every node whose cluster has no load balancer.
const Endpoint = "127.0.0.1:6444"

// Serves reports whether an endpoint of the API, host:port, is the balancer of the node itself. kURL calls the host localhost.
func Serves(endpoint string) bool {
	return endpoint == Endpoint || endpoint == net.JoinHostPort("localhost", strconv.Itoa(Port))
}

// How often an API server is asked for its health, how long it has to answer, and how long a connection may take.
const (
	healthInterval = 3 * time.Second
	healthTimeout  = 5 * time.Second
	dialTimeout    = 5 * time.Second
)

// How long a connection is held while no API server accepts it, by default, and how often they are probed. The API server of a
// single control plane restarts in less.
const (
	holdTime  = 20 * time.Second
	holdPause = 200 * time.Millisecond
)

// Balancer passes connections on to API servers. The zero value knows none.
type Balancer struct {
	Log *slog.Logger
	// Hold is how long a connection is held while no API server accepts it. Default 20 s.
	Hold time.Duration
	// PerUser is how many connections one user of the node may have, and half of what all may have. Default 1024.
	PerUser int

	mu      sync.Mutex
	servers []*server
	next    atomic.Uint32
}

// server is one API server.
type server struct {
	address string
	healthy atomic.Bool
	stop    context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]struct{} // that clients use through it; nil when the server is gone
}

// Set says which API servers there are, as host:port. Connections to one that is gone are ended. An empty list is treated as a
// mistake, and changes nothing.
func (b *Balancer) Set(ctx context.Context, addresses []string) {
	if len(addresses) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var servers []*server
	for _, s := range b.servers {
		if slices.Contains(addresses, s.address) {
			servers = append(servers, s)
			continue
		}
		b.Log.Info("API server is gone", "address", s.address)
		s.stop()
		s.retire()
	}
	for _, address := range addresses {
		if slices.ContainsFunc(servers, func(s *server) bool { return s.address == address }) {
			continue
		}
		b.Log.Info("API server is known", "address", address)
		s := &server{address: address, conns: make(map[net.Conn]struct{})}
		watch, stop := context.WithCancel(ctx)
		s.stop = stop
		servers = append(servers, s)
		go b.watch(watch, s)
	}
	b.servers = servers
}

// Servers returns the known addresses.
func (b *Balancer) Servers() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var addresses []string
	for _, s := range b.servers {
		addresses = append(addresses, s.address)
	}
	return addresses
}

// watch probes the health of a server until ctx ends.
func (b *Balancer) watch(ctx context.Context, s *server) {
	prober := NewProber()
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		err := prober.Ready(ctx, s.address)
		if ctx.Err() != nil {
			return 0
		}
		if was := s.healthy.Swap(err == nil); was != (err == nil) {
			b.Log.Info("API server's health", "address", s.address, "healthy", err == nil, "error", err)
			b.moveOff()
		}
		return healthInterval
	})
}

// moveOff ends the connections to unhealthy servers, if another one is healthy: clients need not wait for a host that will
// never answer. Without another one they would gain nothing.
func (b *Balancer) moveOff() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.servers, func(s *server) bool { return s.healthy.Load() }) {
		return
	}
	for _, s := range b.servers {
		if !s.healthy.Load() {
			s.closeAll()
		}
	}
}

// Prober asks API servers whether they work.
type Prober struct{ client *http.Client }

// NewProber makes a Prober.
func NewProber() Prober { return newProber(&net.Dialer{}) }

// NewMarkedProber makes a Prober whose sockets have a mark (SO_MARK), which the kernel lets only an administrator set.
func NewMarkedProber(mark int) Prober {
	return newProber(&net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
		return errors.Join(controlErr, err)
	}})
}

func newProber(dialer *net.Dialer) Prober {
	transport := &http.Transport{
		DialContext: dialer.DialContext,
		// nothing is sent to the server, and clients verify it themselves
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as said
		// a new connection each time: an open one proves nothing about the path
		DisableKeepAlives: true,
	}
	return Prober{&http.Client{Transport: transport, Timeout: healthTimeout}}
}

// Ready asks the API server at host:port. A server without anonymous requests (--anonymous-auth=false) answers 401 at all times, and
// counts as ready. A server that starts answers 403 until it has read the roles of the cluster, so 403 is not ready. No server of
// kubeadm answers 403 for long: the kubelet also probes without credentials, and restarts a server that refuses.
func (p Prober) Ready(ctx context.Context, address string) error {
	status, err := p.Status(ctx, address)
	if err == nil && status != http.StatusOK && status != http.StatusUnauthorized {
		return fmt.Errorf("not ready: %d %s", status, http.StatusText(status))
	}
	return err
}

// Status returns the HTTP status with which the API server at host:port answers to /readyz.
func (p Prober) Status(ctx context.Context, address string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	return response.StatusCode, err
}

// maxPerUser is how many connections one user of the node may have, unless the Balancer says otherwise. All others together may have as
// many as root, whose share they cannot use: kubelet and kube-proxy run as root.
const maxPerUser = 1024

// Serve passes the listener's connections on until ctx ends.
func (b *Balancer) Serve(ctx context.Context, l net.Listener) error {
	// connections wait for events of the API, so none is idle
	perUser := cmp.Or(b.PerUser, maxPerUser)
	l = connlimit.New(connlimit.Options{PerClient: perUser, All: 2 * perUser, Client: userOf, Reserved: root, Idle: -1, Log: b.Log}).Listener(l)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			b.stop()
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			b.Log.Warn("cannot accept a connection", "error", err) // the next may be better off
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go b.pass(ctx, conn)
	}
}

func (b *Balancer) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.servers {
		s.stop()
		s.retire()
	}
}

func (b *Balancer) pass(ctx context.Context, client net.Conn) {
	defer client.Close()
	upstream, s, err := b.hold(ctx)
	if err != nil {
		b.Log.Warn("no API server takes a connection", "error", err)
		return
	}
	defer upstream.Close()
	if !s.add(client) {
		return
	}
	defer s.remove(client)
	var both sync.WaitGroup
	inner := client.(interface{ NetConn() net.Conn }).NetConn() // the kernel copies between sockets
	both.Go(func() { copyHalf(upstream, inner) })
	both.Go(func() { copyHalf(inner, upstream) })
	both.Wait()
}

// copyHalf passes one direction on, and its end.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
	}
}

// hold dials until an API server accepts the connection.
func (b *Balancer) hold(ctx context.Context) (upstream net.Conn, s *server, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(b.Hold, holdTime))
	defer cancel()
	err = poll.Until(ctx, holdPause, nil, poll.Success(func(ctx context.Context) (err error) {
		upstream, s, err = b.dial(ctx)
		return err
	}))
	return upstream, s, err
}

// dial connects to one of the servers: the healthy ones in turn, then the others, since all look unhealthy while a cluster starts.
func (b *Balancer) dial(ctx context.Context) (net.Conn, *server, error) {
	b.mu.Lock()
	servers := slices.Clone(b.servers)
	b.mu.Unlock()
	if len(servers) == 0 {
		return nil, nil, errors.New("no API server is known")
	}
	first := int(b.next.Add(1)) % len(servers)
	servers = append(servers[first:], servers[:first]...)
	slices.SortStableFunc(servers, func(a, b *server) int { return rank(a) - rank(b) })
	var errs []error
	for _, s := range servers {
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", s.address)
		if err == nil {
			return conn, s, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

func rank(s *server) int {
	if s.healthy.Load() {
		return 0
	}
	return 1
}

func (s *server) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

// retire ends the connections for good.
func (s *server) retire() {
	s.closeAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = nil
}

func (s *server) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}
