package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// counter passes requests on to an API server, and counts them. Renewals of Leases are counted apart.
type counter struct {
	server *httptest.Server

	mu                     sync.Mutex
	requests, writes, idle int
	kinds                  map[string]tally // writes by kind, and refused ones
	last                   time.Time        // of a write
}

// tally counts writes of one kind.
type tally struct {
	writes int
	ended  time.Time // the last one was answered
}

func newCounter(cfg *rest.Config) (*counter, error) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.Transport, pass.FlushInterval, pass.ErrorLog = transport, -1, log.New(os.Stderr, "bench: ", 0)
	c := &counter{last: time.Now(), kinds: make(map[string]tally)}
	pass.ModifyResponse = func(r *http.Response) error {
		c.answered(r)
		return nil
	}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(r)
		pass.ServeHTTP(w, r)
	}))
	return c, nil
}

// answered counts a write by its kind.
func (c *counter) answered(r *http.Response) {
	if !writes(r.Request) {
		return
	}
	kind := written(r.Request.URL.Path)
	if r.StatusCode >= http.StatusBadRequest {
		kind += fmt.Sprintf(" (%d)", r.StatusCode)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[kind] = tally{c.kinds[kind].writes + 1, time.Now()}
}

// writes reports whether a request writes, and not a Lease.
func writes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.Contains(r.URL.Path, "/leases")
}

// written returns the resource of a path, and the subresource: managedclusteraddons/status.
func written(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = parts[i+2:] // after the name
	} else {
		parts = parts[min(len(parts), 3):] // after apis, group and version
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return strings.Join(parts[:min(len(parts), 1)], "")
}

func (c *counter) count(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	switch {
	case strings.Contains(r.URL.Path, "/leases"):
		c.idle++
	case writes(r):
		c.writes++
		c.last = time.Now()
	}
}

// take returns the counts since the last call.
func (c *counter) take() (requests, writes, leases int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests, writes, leases = c.requests, c.writes, c.idle
	c.requests, c.writes, c.idle = 0, 0, 0
	clear(c.kinds)
	return requests, writes, leases
}

// byKind lists the writes since the last take by kind, the most frequent first.
func (c *counter) byKind() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds := slices.SortedFunc(maps.Keys(c.kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.kinds[b].writes, c.kinds[a].writes), strings.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", c.kinds[kind].writes, kind)
	}
	return strings.Join(kinds, ", ")
}

// end returns when the last write of a kind since the last take was answered.
func (c *counter) end(kind string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds[kind].ended
}

// waitIdle waits until nobody has written for a while.
func (c *counter) waitIdle(ctx context.Context) error {
	for {
		c.mu.Lock()
		left := time.Until(c.last.Add(fleetQuiet))
		c.mu.Unlock()
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(left):
		}
	}
}
