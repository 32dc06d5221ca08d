package share_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/flood"
	"github.com/sealift/sealift/internal/testing/short"
)

// maxFlooded is how much memory the share may take while clients hold on to it, in addition to this test's own.
const maxFlooded = 128 << 20

func TestMain(m *testing.M) { flood.TestMain(m) }

// TestFloodingHostsLeaveOthersServed lets hosts, one with a token, hold connections and responses that they never read, while another
// host requests the bundle's index.
func TestFloodingHostsLeaveOthersServed(t *testing.T) {
	short.Skip(t, "both cores")
	address := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 8, n}) }
	many := func(n byte, like flood.Client) (all []flood.Client) {
		for i := range n {
			like.From = address(20 + i)
			all = append(all, like)
		}
		return all
	}
	anonymous := []flood.Request{{Method: "GET", Path: "/join.sh"}, {Method: "GET", Path: "/sealift"}, {Method: "GET", Path: "/sealift", Range: "bytes=1000-"}}
	worker := slices.Clone(anonymous)
	for _, r := range []flood.Request{{Method: "GET", Path: "/v1/cluster"}, {Method: "GET", Path: "/v1/index"}, {Method: "POST", Path: "/v1/missing", Body: make([]byte, 60_000)}} {
		r.Token = token
		worker = append(worker, r)
	}
	for name, attack := range map[string][]flood.Client{
		"idle connections":            {{From: address(2), TLS: true, Rate: 1500, Connections: 3000}},
		"idle connections, no TLS":    {{From: address(2), Rate: 1500, Connections: 3000}},
		"with a request":              {{From: address(2), TLS: true, Rate: 450, Connections: 3500, Requests: worker}},
		"with a request, no TLS":      {{From: address(2), Rate: 450, Connections: 3500, Requests: anonymous}},
		"streams":                     {{Streams: true, TLS: true, From: address(2), Rate: 450, Connections: 100, Requests: worker}},
		"connections of many clients": many(20, flood.Client{TLS: true, Rate: 50, Connections: 175, Requests: worker}),
	} {
		t.Run(name, func(t *testing.T) {
			n := serve(t)
			if err := fixture.WriteProgram(n.script.Programs.Binary, make([]byte, 16<<20)); err != nil { // larger than what sockets hold
				t.Fatal(err)
			}
			for i := range attack {
				attack[i].Server = n.address
			}
			withstands(t, n, address(4), attack)
		})
	}
}

func withstands(t *testing.T, n *node, other netip.Addr, attack []flood.Client) {
	t.Helper()
	grown := flood.MemoryForTest(t)
	ctx, strict, end := flood.StartForTest(t, attack)
	took := askUntil(ctx, t, n, other)
	attacked := end()
	slices.Sort(took)
	middle, slowest := took[len(took)/2], took[len(took)-1]
	more := grown()
	t.Logf("%d requests and connections, %d of them failed; %d MiB more than before; %d answers for another host took %s, and at most %s",
		attacked.Sent, attacked.Failed, more>>20, len(took), middle.Round(time.Millisecond), slowest.Round(time.Millisecond))
	if more > maxFlooded {
		t.Errorf("the share took %d MiB, more than %d", more>>20, maxFlooded>>20)
	}
	if middle > time.Second || strict && slowest > time.Second {
		t.Errorf("answers took %s, and at most %s", middle, slowest)
	}
}

// askUntil requests the bundle's index until ctx ends, each time with another connection, and returns how long each response took.
func askUntil(ctx context.Context, t *testing.T, n *node, from netip.Addr) (took []time.Duration) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 10 * time.Second}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: dialer.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	for len(took) == 0 || ctx.Err() == nil {
		begin := time.Now()
		if err := askOnce(t.Context(), client, "https://"+n.address+"/v1/index"); err != nil {
			t.Fatalf("after %d answers: %v", len(took), err)
		}
		took = append(took, time.Since(begin))
		time.Sleep(100 * time.Millisecond)
	}
	return took
}

func askOnce(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
