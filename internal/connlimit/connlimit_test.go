package connlimit

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/flood"
)

func TestKeyGroupsAddressesOfOneClient(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1",
		"2001:db8::1": "2001:db8::/64", "[2001:db8::ffff%eth0]:80": "2001:db8::/64", "2001:db8:0:1::1": "2001:db8:0:1::/64", "@": "@",
	} {
		if got := Key(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// ledger has holds of one byte, and no sockets.
type ledger struct {
	*Limiter
	ended chan string
}

func newLedger(perClient, all int64) ledger {
	return ledger{&Limiter{client: perClient, network: perClient, all: all, maxEnding: all, idle: time.Hour, clients: make(map[string]*client)}, make(chan string, 100)}
}

func (l ledger) hold(t *testing.T, key string) (h *hold, answer verdict) {
	t.Helper()
	h, answer = l.take(key, 1, false, func() { l.ended <- key; l.release(h) })
	return h, answer
}

func TestClientBeyondItsShareIsRefused(t *testing.T) {
	l := newLedger(2, 100)
	first, _ := l.hold(t, "a")
	for n, want := range []verdict{granted, denied} {
		if _, got := l.hold(t, "a"); got != want {
			t.Errorf("hold %d: %v, want %v", n+2, got, want)
		}
	}
	if _, got := l.hold(t, "b"); got != granted {
		t.Errorf("another client: %v", got)
	}
	l.release(first)
	l.release(first) // a second time, as when a connection is closed twice
	if _, got := l.hold(t, "a"); got != granted {
		t.Errorf("after a release: %v", got)
	}
}

func TestIdleConnectionYieldsToSameClient(t *testing.T) {
	l := newLedger(2, 100)
	l.idle = time.Minute
	stale, _ := l.hold(t, "a")
	l.hold(t, "a")
	stale.moved.Store(time.Now().Add(-time.Hour).UnixNano())
	if _, got := l.hold(t, "a"); got != granted || <-l.ended != "a" {
		t.Error(got)
	}
	if _, got := l.hold(t, "a"); got != denied {
		t.Errorf("in place of one that moves bytes: %v", got)
	}
}

func TestLargestClientYields(t *testing.T) {
	l := newLedger(8, 10)
	var stalest *hold
	for range 8 {
		h, _ := l.hold(t, "greedy")
		stalest = h
	}
	stalest.moved.Store(time.Now().Add(-time.Minute).UnixNano())
	for range 2 {
		l.hold(t, "modest")
	}
	for n := range 3 { // 8+2, 7+3, 6+4, 5+5
		if _, got := l.hold(t, "modest"); got != granted || <-l.ended != "greedy" {
			t.Fatalf("hold %d: %v", n+3, got)
		}
	}
	if stalest.client != nil {
		t.Error("the hold that moved bytes last was ended first")
	}
	if _, got := l.hold(t, "modest"); got != denied {
		t.Errorf("a client that holds as much as any other: %v", got)
	}
	if _, got := l.hold(t, "new"); got != granted {
		t.Errorf("a new client: %v", got)
	}
}

func TestIdleConnectionYieldsToAnyClient(t *testing.T) {
	l := newLedger(8, 10)
	l.idle = time.Minute
	for n := range 10 {
		h, _ := l.hold(t, strconv.Itoa(n))
		if n == 7 {
			h.moved.Store(time.Now().Add(-time.Hour).UnixNano())
		}
	}
	if _, got := l.hold(t, "new"); got != granted || <-l.ended != "7" {
		t.Errorf("got %v", got)
	}
	if _, got := l.hold(t, "newer"); got != denied {
		t.Errorf("while all others move bytes: %v", got)
	}
}

// TestReservedShareStays has clients that together take all that they can get, and one for which a share is reserved.
func TestReservedShareStays(t *testing.T) {
	l := newLedger(4, 8)
	l.options.Reserved, l.idle = "root", time.Minute
	holds := func(key string, want verdict) *hold {
		t.Helper()
		h, got := l.hold(t, key)
		if got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
		return h
	}
	for range 3 {
		holds("root", granted).moved.Store(time.Now().Add(-time.Hour).UnixNano())
	}
	for n := range 4 {
		holds(strconv.Itoa(n), granted)
	}
	holds("new", denied)
	last := holds("root", granted)
	if len(l.ended) != 0 || l.held != 8 {
		t.Errorf("%d holds were ended, %d are held", len(l.ended), l.held)
	}
	l.release(last)
	holds("new", denied)
	if o := New(Options{PerClient: 1 << 20, All: 64, Reserved: "root"}); o.client > o.all/2 {
		t.Errorf("%d of %d are reserved", o.client, o.all)
	}
}

// served is a server on loopback that answers as its handler does.
func served(t *testing.T, o Options, h http.HandlerFunc) (l *Limiter, s *httptest.Server) {
	t.Helper()
	l = New(o)
	s = httptest.NewUnstartedServer(l.Handler(h))
	s.Listener = l.Listener(s.Listener)
	l.Configure(s.Config)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return l, s
}

func get(s *httptest.Server, from netip.Addr, path string) (status int, err error) {
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, TLSClientConfig: s.Client().Transport.(*http.Transport).TLSClientConfig}}
	resp, err := client.Get(s.URL + path)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func from(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 8, n}) }

// connections opens idle connections.
func connections(t *testing.T, s *httptest.Server, from netip.Addr, n int) {
	t.Helper()
	for range n {
		d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}, Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := d.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

func TestHealthChecksHaveReservedConnections(t *testing.T) {
	health := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	_, s := served(t, Options{PerClient: 4, All: 6, Health: health}, func(http.ResponseWriter, *http.Request) {})
	connections(t, s, from(1), 4)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/": http.StatusTooManyRequests} {
		for range 3 {
			if status, err := get(s, from(1), path); status != want {
				t.Errorf("%s: %d %v, want %d", path, status, err, want)
			}
		}
	}
	for n := range byte(6) { // one each, so that nobody has more than a new client would have
		connections(t, s, from(2+n), 1)
	}
	for range maxReserve + 10 { // the oldest connection in the reserve yields
		connections(t, s, from(1), 1)
	}
	if status, err := get(s, from(9), "/healthz"); status != http.StatusOK {
		t.Errorf("while all is held: %d %v", status, err)
	}
}

// TestUnreadStreamsCount uses a client whose HTTP/2 window is 0: even a short response stays in the server, after its handler has returned.
func TestUnreadStreamsCount(t *testing.T) {
	for name, body := range map[string]string{"short": "ok", "long": strings.Repeat("x", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			var handled, inside, most atomic.Int64
			l, s := served(t, Options{PerClient: 2, All: 100}, func(w http.ResponseWriter, _ *http.Request) {
				handled.Add(1)
				most.Store(max(most.Load(), inside.Add(1)))
				defer inside.Add(-1)
				_, _ = io.WriteString(w, body)
			})
			f := flood.Flood{Time: 2 * time.Second, Clients: []flood.Client{{Server: s.Listener.Addr().String(), From: from(1), TLS: true, Streams: true, Rate: 200, Connections: 1, Requests: []flood.Request{{Method: "GET", Path: "/"}}}}}
			ended := make(chan flood.Report)
			go func() { ended <- f.Run(t.Context()) }()
			time.Sleep(time.Second)
			held := l.Stats().Held
			if status, err := get(s, from(2), "/"); status != http.StatusOK {
				t.Errorf("another client: %d %v", status, err)
			}
			if most := withRefusals(2 * connectionSize); held > most || held < connectionSize+requestSize {
				t.Errorf("%d bytes are held, want at most %d", held, most)
			}
			if n := handled.Load(); n > 3 {
				t.Errorf("%d requests of a client that reads nothing were handled", n)
			}
			t.Log(<-ended, l.Stats())
		})
	}
}

func TestProxyCarriesManyClients(t *testing.T) {
	forwarded := func(r *http.Request) string { return Key(r.Header.Get("X-Forwarded-For")) }
	release := make(chan struct{})
	_, s := served(t, Options{PerClient: 2, All: 100, Forwarded: forwarded}, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	client := s.Client()
	client.Timeout = time.Second
	ask := func(name string) (status int) {
		req, err := http.NewRequest(http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", name)
		resp, err := client.Do(req)
		if err != nil {
			return 0 // it waits in the handler
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	answers := make(chan int, 10)
	for n := range 5 {
		go func() { answers <- ask(fmt.Sprintf("192.0.2.%d", n)) }()
		go func() { answers <- ask("192.0.2.9") }()
	}
	refused := 0
	for range 10 {
		if <-answers == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 3 {
		t.Errorf("%d requests were refused, want 3 of the 5 from one client", refused)
	}
}

// scarce is a listener that finds no descriptor some times.
type scarce struct {
	net.Listener
	left int
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.left--; s.left >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

func TestShortageOfDescriptorsDoesNotEndListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(Options{PerClient: 10, All: 10})
	ended := make(chan struct{})
	if _, answer := l.take("greedy", connectionSize, false, func() { close(ended) }); answer != granted {
		t.Fatal(answer)
	}
	own := l.Listener(&scarce{inner, 2})
	go func() {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err == nil {
			defer conn.Close()
		}
	}()
	conn, err := own.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	<-ended
	_ = inner.Close()
	if _, err := own.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}

// endless answers until its client stops reading, and reports that.
func endless(t *testing.T, perClient int, stall time.Duration) (address string, ended chan error) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 2*perClient)
	piece := make([]byte, 1<<20)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(piece); err != nil {
				ended <- err
				return
			}
		}
	})}
	l := New(Options{PerClient: perClient, All: 2 * perClient, Stall: stall, Idle: -1})
	go func() { _ = s.Serve(l.Listener(inner)) }()
	t.Cleanup(func() { _ = s.Close() })
	return inner.Addr().String(), ended
}

func ask(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestStalledClientLosesItsConnections(t *testing.T) {
	const perClient = 64
	address, ended := endless(t, perClient, 100*time.Millisecond)
	for range perClient {
		ask(t, address) // and nothing is read
	}
	for n := range perClient {
		select {
		case err := <-ended:
			t.Log(err)
		case <-time.After(30 * time.Second):
			t.Fatalf("%d of %d clients that read nothing still hold their connections", perClient-n, perClient)
		}
	}
	if n, err := io.CopyN(io.Discard, ask(t, address), 1<<20); err != nil { // there is room again
		t.Errorf("a client after them got %d bytes: %v", n, err)
	}
}

func TestSlowButSteadyClientIsServed(t *testing.T) {
	const stall = 2 * time.Second
	address, ended := endless(t, 64, stall)
	conn := ask(t, address)
	for begin := time.Now(); time.Since(begin) < 2*stall; time.Sleep(stall / 60) {
		if _, err := io.CopyN(io.Discard, conn, 1<<20); err != nil {
			t.Fatalf("a client that goes on reading was left after %s: %v", time.Since(begin), err)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("its answer ended: %v", err)
	default:
	}
}
