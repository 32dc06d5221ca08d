package connlimit

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// waits answers at once, or never on the path /wait.
func waits(_ http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/wait" {
		<-r.Context().Done()
	}
}

type markKey struct{}

// idleServer is a server whose connections may be idle for a time, and counts those no longer in memory.
func idleServer(t *testing.T, idle time.Duration) (l *Limiter, s *httptest.Server, gone *atomic.Int64) {
	t.Helper()
	l, gone = New(Options{PerClient: 20, All: 20}), new(atomic.Int64)
	s = httptest.NewUnstartedServer(l.Handler(http.HandlerFunc(waits)))
	s.Listener = l.Listener(s.Listener)
	s.Config.IdleTimeout = idle
	l.Configure(s.Config)
	inner := s.Config.ConnContext
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		mark := new([64]byte)
		runtime.AddCleanup(mark, func(gone *atomic.Int64) { gone.Add(1) }, gone)
		return context.WithValue(inner(ctx, c), markKey{}, mark)
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return l, s, gone
}

// own returns a transport with its own connections.
func own(s *httptest.Server, protocol string) *http.Transport {
	c := s.Client().Transport.(*http.Transport).Clone()
	if c.ForceAttemptHTTP2 = protocol == "HTTP/2.0"; !c.ForceAttemptHTTP2 {
		c.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return c
}

func send(t *testing.T, s *httptest.Server, c *http.Transport, path string) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, nil) // nobody retries a POST
	if err != nil {
		t.Fatal(err)
	}
	return c.RoundTrip(req)
}

func roundTrip(t *testing.T, s *httptest.Server, c *http.Transport, protocol string) {
	t.Helper()
	resp, err := send(t, s, c, "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.Proto != protocol {
		t.Errorf("%s instead of %s", resp.Proto, protocol)
	}
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after 20 seconds: %s", what)
		}
	}
}

func TestIdleConnectionEnds(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		l, s, _ := idleServer(t, 500*time.Millisecond)
		c := own(s, protocol)
		for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(100 * time.Millisecond) {
			roundTrip(t, s, c, protocol)
			if l.Stats().Held > connectionSize+requestSize { // one connection lasts as long as there are requests
				t.Errorf("%s: %d bytes are held", protocol, l.Stats().Held)
			}
		}
		waitUntil(t, "the connection of "+protocol+" has ended", func() bool { return l.Stats().Held == 0 })
	}
}

// TestClosedConnectionHoldsNothing has connections that could be idle for an hour, and end in the middle of a request.
func TestClosedConnectionHoldsNothing(t *testing.T) {
	const connections = 10
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		_, s, gone := idleServer(t, time.Hour)
		for range connections {
			c := own(s, protocol)
			var dialled net.Conn
			c.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				dialled = conn
				return conn, err
			}
			roundTrip(t, s, c, protocol)
			time.AfterFunc(20*time.Millisecond, func() { _ = dialled.Close() })
			if resp, err := send(t, s, c, "/wait"); err == nil {
				_ = resp.Body.Close()
				t.Errorf("%s: a closed connection was answered", protocol)
			}
		}
		waitUntil(t, "all connections of "+protocol+" have left the memory", func() bool {
			runtime.GC()
			return gone.Load() == connections
		})
	}
}
