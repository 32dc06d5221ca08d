package main

import (
	"context"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
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
	last                   time.Time // of a write
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
	c := &counter{last: time.Now()}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(r)
		pass.ServeHTTP(w, r)
	}))
	return c, nil
}

func (c *counter) count(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	switch {
	case strings.Contains(r.URL.Path, "/leases"):
		c.idle++
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
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
	return requests, writes, leases
}

// rest waits until nobody has written for a while.
func (c *counter) rest(ctx context.Context) error {
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
