package builder_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/fetch"
)

// badLine is a proxy that answers every fourth request with 503 and cuts every body after two MiB.
type badLine struct {
	next     http.Handler
	requests atomic.Int64
	sent     atomic.Int64
}

func (b *badLine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.requests.Add(1)%4 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.next.ServeHTTP(&cutBody{ResponseWriter: w, line: b, left: 2 << 20}, r)
}

type cutBody struct {
	http.ResponseWriter
	line *badLine
	left int
}

func (c *cutBody) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	c.line.sent.Add(int64(n))
	if c.left -= n; c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func TestBuildOutlastsBadConnection(t *testing.T) {
	w := newWorld(t, "debian-12")
	const payload = 6<<20 + 5<<20
	w.push(t, "one:1", layer(1, 6<<20), layer(2, 5<<20))
	dir := addOn(t, "demo", "image one registry.example.io/one:1\n")
	want := build(t, w.builder(t, openCache(t), 2), dir)

	registry, err := url.Parse("http://" + w.registry)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(registry)
	proxy.ErrorLog = discardLog()
	line := &badLine{next: proxy}
	server := httptest.NewUnstartedServer(line)
	server.Config.ErrorLog = discardLog()
	server.Start()
	t.Cleanup(server.Close)
	writeFile(t, w.config, strings.ReplaceAll(readFile(t, w.config), w.registry, strings.TrimPrefix(server.URL, "http://")))
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: settings, Targets: w.targets, Jobs: 2, Retry: fetch.Retry{Attempts: 4, Wait: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if got := build(t, b, dir); got.SHA256 != want.SHA256 {
		t.Errorf("built %s over the bad line, %s over a good one", got.SHA256, want.SHA256)
	}
	if more := line.sent.Load() - payload; more > 1<<20 {
		t.Errorf("%d KiB more than the layers were sent", more>>10)
	}
}
