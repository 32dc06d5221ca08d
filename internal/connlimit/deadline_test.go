package connlimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/connlimit"
)

type markKey struct{}

// mark is something that only a connection holds.
type mark struct{ _ [64]byte }

func serve(t *testing.T, h http.HandlerFunc) (s *httptest.Server, gone *atomic.Int64) {
	t.Helper()
	gone = new(atomic.Int64)
	s = httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		m := new(mark)
		runtime.AddCleanup(m, func(gone *atomic.Int64) { gone.Add(1) }, gone)
		return context.WithValue(ctx, markKey{}, m)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, gone
}

// TestDeadlineOfEndedStreamHoldsNothing sets deadlines after a client has reset its stream.
func TestDeadlineOfEndedStreamHoldsNothing(t *testing.T) {
	const clients = 20
	var handlers sync.WaitGroup
	s, gone := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer handlers.Done()
		if r.ProtoMajor != 2 {
			t.Errorf("%s", r.Proto)
		}
		own := connlimit.NewDeadlines(w, r)
		defer own.Stop()
		<-r.Context().Done()
		_ = own.SetReadDeadline(time.Now().Add(time.Hour))
		_ = own.SetWriteDeadline(time.Now().Add(time.Hour))
	})
	for range clients {
		handlers.Add(1)
		client := s.Client().Transport.(*http.Transport).Clone()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
			t.Error("it was answered")
		}
		cancel()
		handlers.Wait()
		time.Sleep(10 * time.Millisecond) // net/http applies the deadlines while the connection lives
		client.CloseIdleConnections()
	}
	for end := time.Now().Add(20 * time.Second); gone.Load() < clients; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d ended connections are still in memory", clients-gone.Load(), clients)
		}
		runtime.GC()
	}
}

// TestDeadlinesEndSlowRequests tests both protocols, until the deadlines are removed.
func TestDeadlinesEndSlowRequests(t *testing.T) {
	read := make(chan error, 1)
	s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		own := connlimit.NewDeadlines(w, r)
		defer own.Stop()
		_ = own.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if r.URL.Path == "/patient" {
			_ = own.SetReadDeadline(time.Time{})
		}
		_, err := io.ReadAll(r.Body)
		read <- err
	})
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for path, ends := range map[string]bool{"/": true, "/patient": false} {
			client := s.Client().Transport.(*http.Transport).Clone()
			client.ForceAttemptHTTP2 = protocol == "HTTP/2.0"
			if !client.ForceAttemptHTTP2 {
				client.TLSClientConfig.NextProtos = []string{"http/1.1"}
			}
			sent, send := io.Pipe()
			time.AfterFunc(500*time.Millisecond, func() { _ = send.Close() })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, io.MultiReader(strings.NewReader("a"), sent))
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := client.RoundTrip(req); err == nil {
				if resp.Proto != protocol {
					t.Errorf("%s instead of %s", resp.Proto, protocol)
				}
				_ = resp.Body.Close()
			}
			if err := <-read; errors.Is(err, os.ErrDeadlineExceeded) != ends {
				t.Errorf("%s %s: %v", protocol, path, err)
			}
			client.CloseIdleConnections()
		}
	}
}
