package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/flood"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/internal/testing/short"
)

// maxFlooded bounds the memory of the server during a flood, slowProbe the duration of a health check. A few checks may
// take longer in 'make test', where other tests use the same processors.
const (
	maxFlooded = 192 << 20
	slowProbe  = time.Second
)

// address returns the loopback address of a client.
func address(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 9, n}) }

// clientAt returns a client with an address and a connection for each request.
func clientAt(n byte, timeout time.Duration) *http.Client {
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(address(n), 0)), Timeout: 10 * time.Second}
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DialContext: dialer.DialContext, DisableKeepAlives: true, ReadBufferSize: 4 << 10, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

// TestFloodingClientsLeaveOthersServed lets clients hold connections, requests and streams that they never read, on every path, while
// another client downloads a bundle and a probe checks the health.
func TestFloodingClientsLeaveOthersServed(t *testing.T) {
	short.Skip(t, "both cores")
	dir := t.TempDir()
	installer := fill(t, dir, objects.Load{Packages: 2, Own: 40_000_000, Shared: 10_000_000})
	certificate(t, dir, "localhost")
	start := func(t *testing.T) (s *runningServer, id string, paths []flood.Request) {
		s = startServer(t, "--store", dir, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
		id = postInstaller(t, "https://"+s.address, installer)
		return s, id, streamedPaths(t, "https://"+s.address, id)
	}
	for name, attack := range map[string]struct {
		ranges  bool // of the bundle, and no other path
		clients []flood.Client
	}{
		"streams with ranges of a bundle": {true, []flood.Client{{Streams: true, From: address(2), Rate: 450, Connections: 100}}},
		"streams on every path":           {false, []flood.Client{{Streams: true, From: address(2), Rate: 450, Connections: 100}}},
		"streams of many clients":         {false, many(20, flood.Client{Streams: true, Rate: 50, Connections: 20})},
		"idle connections":                {false, []flood.Client{{From: address(2), Rate: 1500, Connections: 3000}}},
		"connections with a request":      {false, []flood.Client{{From: address(2), Rate: 450, Connections: 3500}}},
		"connections of many clients":     {false, many(20, flood.Client{Rate: 50, Connections: 175})},
	} {
		t.Run(name, func(t *testing.T) {
			s, id, paths := start(t)
			if attack.ranges {
				paths = slices.DeleteFunc(paths, func(r flood.Request) bool { return r.Range == "" })[:1]
			}
			for n := range attack.clients {
				attack.clients[n].Server, attack.clients[n].TLS = s.address, true
				if name != "idle connections" {
					attack.clients[n].Requests = paths
				}
			}
			withstands(t, s, "https://"+s.address+"/bundle/"+id+".tar.gz", attack.clients)
		})
	}
}

func many(n byte, like flood.Client) (all []flood.Client) {
	for i := range n {
		like.From = address(20 + i)
		all = append(all, like)
	}
	return all
}

func withstands(t *testing.T, s *runningServer, bundle string, attack []flood.Client) {
	t.Helper()
	before := s.peak(t)
	ctx, strict, end := flood.StartForTest(t, attack)
	var group sync.WaitGroup
	var downloaded atomic.Int64
	group.Go(func() { download(ctx, t, bundle, &downloaded) })
	took, most := probe(ctx, t, s)
	group.Wait()
	attacked := end()
	peak := s.peak(t)
	slices.Sort(took)
	slowest := took[len(took)-1]
	t.Logf("%d requests and connections, %d of them failed; the server used up to %d MiB (%d before) and %d descriptors; %d health checks took %s, and at most %s; another client got %d MB",
		attacked.Sent, attacked.Failed, peak>>20, before>>20, most, len(took), took[len(took)/2].Round(time.Millisecond), slowest.Round(time.Millisecond), downloaded.Load()/1e6)
	if peak > maxFlooded {
		t.Errorf("the server used more than %d MiB", maxFlooded>>20)
	}
	if took[len(took)/2] > slowProbe || strict && slowest > slowProbe {
		t.Errorf("health checks took %s, and at most %s", took[len(took)/2], slowest)
	}
	if downloaded.Load() < 20e6 {
		t.Errorf("another client got only %d bytes", downloaded.Load())
	}
}

// probe checks the health until ctx ends, each time with another connection, and returns how long each check took.
func probe(ctx context.Context, t *testing.T, s *runningServer) (took []time.Duration, descriptors int) {
	client := clientAt(3, 10*time.Second)
	for first := true; first || ctx.Err() == nil; first = false {
		begin := time.Now()
		resp, err := client.Get("https://" + s.address + "/healthz")
		took = append(took, time.Since(begin))
		if err != nil {
			t.Errorf("after %d health checks: %v", len(took), err)
			return took, descriptors
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a health check was answered %s", resp.Status)
		}
		descriptors = max(descriptors, descriptorsOf(t, s))
		time.Sleep(100 * time.Millisecond)
	}
	return took, descriptors
}

// download reads a bundle slowly and repeatedly until ctx ends.
func download(ctx context.Context, t *testing.T, bundle string, n *atomic.Int64) {
	client := clientAt(4, 0)
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, bundle, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %s", resp.Status)
		}
		for err == nil {
			var part int64
			part, err = io.CopyN(io.Discard, resp.Body, 1<<20)
			n.Add(part)
			time.Sleep(50 * time.Millisecond)
		}
		if err != io.EOF && ctx.Err() == nil { //nolint:errorlint // io.CopyN returns it plainly
			t.Errorf("another client's download: %v", err)
			return
		}
	}
}

func descriptorsOf(t *testing.T, s *runningServer) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

func postInstaller(t *testing.T, base, installer string) (id string) {
	t.Helper()
	resp, err := clientAt(4, time.Minute).Post(base+"/installer", "application/yaml", strings.NewReader(installer))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 { // another server of this test may have stored it
		t.Fatalf("%s %s %v", resp.Status, text, err)
	}
	at := strings.TrimSpace(string(text))
	return at[strings.LastIndex(at, "/")+1:]
}

// streamedPaths returns requests for all that the server streams, and one whose body it holds. Each is answered once before.
func streamedPaths(t *testing.T, base, id string) []flood.Request {
	t.Helper()
	var all []flood.Request
	for _, path := range []string{"/bundle/" + id + ".tar.gz", "/bundle/" + id + "/packages/part-0-1.0.tar.gz", "/dist/part-0-1.0.tar.gz",
		"/installer/" + id, "/" + id, "/api/packages", "/", "/packages/part-0/1.0", "/compose", "/openapi.json", "/healthz", "/readyz"} {
		resp, err := clientAt(4, time.Minute).Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, resp.Status)
		}
		if resp.Header.Get("Accept-Ranges") != "" {
			all = append(all, flood.Request{Method: "GET", Path: path, Range: "bytes=1000-"})
		}
		all = append(all, flood.Request{Method: "GET", Path: path})
	}
	body := []byte("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec: {kurl: {additionalNoProxyAddresses: [" + strings.Repeat("a,", 19_000) + "a]}}\n#" + strings.Repeat("a", 60_000) + "\n")
	return append(all, flood.Request{Method: "POST", Path: "/installer/validate", Body: body})
}
