package reviews_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/reviews"
	"github.com/sealift/sealift/internal/testing/flood"
	"github.com/sealift/sealift/internal/testing/short"
)

const (
	apiServers, atOnce = 4, 100
	reviewSize         = 20 << 10
	// maxFlooded is how much memory the server may take while clients hold on to it, in addition to this test's own: 70 MiB of
	// connections and streams, 64 MiB of bodies, and uncollected garbage.
	maxFlooded = 256 << 20
)

func TestMain(m *testing.M) { flood.TestMain(m) }

// serve starts a webhook. A review takes 20 ms, and its answer is as large as the review.
func serve(t *testing.T) (address string) {
	t.Helper()
	bounds := reviews.New(reviews.Limits{Body: 16 << 20, InMemory: 4, AtOnce: 64, Arrival: 15 * time.Second})
	server := httptest.NewUnstartedServer(bounds.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond)
		_, _ = w.Write(reviews.Body(r))
	})))
	server.EnableHTTP2, server.Config.ErrorLog = true, slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.Listener = bounds.Listener(server.Config, server.Listener)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func address(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 9, n}) }

// apiServer is a client as an API server is one: HTTP/2, with as many streams as it has reviews.
func apiServer(t *testing.T, from netip.Addr) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 10 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: 30 * time.Second, Transport: transport}
}

// review sends one review, and returns how long the response took.
func review(ctx context.Context, client *http.Client, server string) (took time.Duration, err error) {
	begin := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server+"/hook", bytes.NewReader(make([]byte, reviewSize)))
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || n != reviewSize) {
		err = fmt.Errorf("%s with %d bytes over %s", resp.Status, n, resp.Proto)
	}
	return time.Since(begin), err
}

// together lets clients send some reviews each at once, round after round, until ctx ends.
func together(ctx context.Context, t *testing.T, server string, each int, clients ...*http.Client) (took []time.Duration) {
	t.Helper()
	for round := 0; round == 0 || ctx.Err() == nil; round++ {
		var group sync.WaitGroup
		var mu sync.Mutex
		failed := make(map[string]int)
		for _, client := range clients {
			for range each {
				group.Go(func() {
					d, err := review(t.Context(), client, server)
					mu.Lock()
					defer mu.Unlock()
					if took = append(took, d); err != nil {
						failed[err.Error()]++
					}
				})
			}
		}
		group.Wait()
		if len(failed) > 0 {
			t.Errorf("round %d: %v", round, failed)
			break
		}
	}
	slices.Sort(took)
	return took
}

// TestFourAPIServersGetReviewsAnswered uses a hundred reviews of each of four API servers at once. Those behind one address, such as
// that of konnectivity, have a connection each before.
func TestFourAPIServersGetReviewsAnswered(t *testing.T) {
	for name, distinct := range map[string]byte{"an address each": 1, "one address": 0} {
		t.Run(name, func(t *testing.T) {
			server := serve(t)
			once, cancel := context.WithCancel(t.Context())
			cancel()
			var clients []*http.Client
			for i := range byte(apiServers) {
				clients = append(clients, apiServer(t, address(2+distinct*i)))
				if distinct == 0 {
					together(once, t, server, 1, clients[i])
				}
			}
			together(once, t, server, atOnce, clients...)
		})
	}
}

// TestFloodingPodLeavesReviewsAnswered lets a pod, or several, hold connections, streams, bodies and responses, while an API server sends
// reviews.
func TestFloodingPodLeavesReviewsAnswered(t *testing.T) {
	short.Skip(t, "both cores")
	small := []flood.Request{{Method: "POST", Path: "/hook", Body: make([]byte, 1000)}, {Method: "GET", Path: "/healthz"}}
	large := []flood.Request{{Method: "POST", Path: "/hook", Body: make([]byte, 60_000)}}
	pod := flood.Client{TLS: true, Rate: 450, Connections: 3500, Requests: small}
	var pods []flood.Client
	for i := range byte(10) {
		pod := flood.Client{TLS: true, Rate: 50, Connections: 300, Requests: large, From: address(30 + i)}
		pods = append(pods, pod)
	}
	for name, attack := range map[string][]flood.Client{
		"idle connections": {{TLS: true, Rate: 1500, Connections: 3000}},
		"with a request":   {pod},
		"streams":          {{Streams: true, TLS: true, Rate: 450, Connections: 100, Requests: large}},
		"ten pods":         pods,
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t)
			for i := range attack {
				if attack[i].Server = server; !attack[i].From.IsValid() {
					attack[i].From = address(20)
				}
			}
			withstand(t, server, attack)
		})
	}
}

func withstand(t *testing.T, server string, attack []flood.Client) {
	t.Helper()
	grown := flood.MemoryForTest(t)
	ctx, strict, end := flood.StartForTest(t, attack)
	took := together(ctx, t, server, 10, apiServer(t, address(2)))
	attacked := end()
	middle, slowest := took[len(took)/2], took[len(took)-1]
	more := grown()
	t.Logf("%d requests and connections, %d of them failed; %d MiB more than before; %d reviews took %s, and at most %s",
		attacked.Sent, attacked.Failed, more>>20, len(took), middle.Round(time.Millisecond), slowest.Round(time.Millisecond))
	if more > maxFlooded {
		t.Errorf("the server took %d MiB, more than %d", more>>20, maxFlooded>>20)
	}
	if middle > time.Second || strict && slowest > 2*time.Second {
		t.Errorf("reviews took %s, and at most %s", middle, slowest)
	}
}
