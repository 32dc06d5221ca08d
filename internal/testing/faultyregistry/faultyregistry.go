// Package faultyregistry is a container registry in memory that remembers its requests, and fails where a test says so. It mounts no blobs.
package faultyregistry

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Registry is a registry on loopback.
type Registry struct {
	Host  string       // host:port
	Inner http.Handler // the registry itself, which does not count

	mu       sync.Mutex
	requests []string // "METHOD path"
	fault    func(w http.ResponseWriter, r *http.Request) bool
}

// New starts a registry, until the test ends. It lacks the referrers API, unless an option says otherwise.
func New(t *testing.T, options ...registry.Option) *Registry {
	t.Helper()
	r := &Registry{Inner: registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...)}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	fault := r.fault
	r.mu.Unlock()
	if fault == nil || !fault(w, req) {
		r.Inner.ServeHTTP(w, req)
	}
}

// SetFault forgets the requests. From then on, fault may answer a request itself, and returns true if it did; nil answers none.
func (r *Registry) SetFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault, r.requests = fault, nil
}

// Fault returns the function that the last SetFault has set.
func (r *Registry) Fault() func(w http.ResponseWriter, r *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// Requests lists the requests since the last SetFault: "METHOD path".
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Count counts the requests with a method, "" for any, and with part in the path.
func (r *Registry) Count(method, part string) (n int) {
	for _, line := range r.Requests() {
		if strings.HasPrefix(line, method) && strings.Contains(line, part) {
			n++
		}
	}
	return n
}
