package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sealift/sealift/kube"
)

// headerTimeout ends a connection that asks nothing.
const headerTimeout = 5 * time.Second

// readiness knows which keys have not succeeded in their last try.
type readiness struct {
	mu      sync.Mutex
	failing map[kube.Ref]bool
}

func newReadiness(keys []kube.Ref) *readiness {
	r := &readiness{failing: map[kube.Ref]bool{}}
	for _, key := range keys {
		r.failing[key] = true
	}
	return r
}

// set notes a try. Keys that were not there from the start do not count.
func (r *readiness) set(key kube.Ref, succeeded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, counts := r.failing[key]; counts {
		r.failing[key] = !succeeded
	}
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, failing := range r.failing {
		if failing {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
	}
}

// listen opens the address of /readyz. The function that it returns serves until ctx ends.
func (r *readiness) listen(ctx context.Context, l Loop) (serve func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve /readyz: %w; does another loop run on this machine?", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz", r)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	if l.Listening != nil {
		l.Listening("http://" + listener.Addr().String() + "/readyz")
	}
	return func() error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve /readyz: %w", err)
		}
		return nil
	}, nil
}
