package channel

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// DefaultListen is where a loop says whether it is ready (K-33).
	DefaultListen = "127.0.0.1:3986"
	// firstRetry is the pause until a pass has succeeded for the first time: the cluster may be coming up.
	firstRetry = 5 * time.Second
)

// Loop repeats a pass until it is told to end (K-33).
type Loop struct {
	Interval time.Duration
	Listen   string // where /readyz is served; empty is DefaultListen
	// Listening is told the URL of /readyz once it is served.
	Listening func(url string)
	Log       *slog.Logger // gets each failure; nil is silence
}

// Run serves /readyz, which is 200 after a pass that succeeded and 503 before the first and after one that failed, and
// returns nil when ctx ends.
func (l Loop) Run(ctx context.Context, pass func(context.Context) error) error {
	log := cmp.Or(l.Log, slog.New(slog.DiscardHandler))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(l.Listen, DefaultListen))
	if err != nil {
		return fmt.Errorf("serve /readyz: %w; does another loop run on this machine?", err)
	}
	var ready atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: firstRetry}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer server.Close()
	if l.Listening != nil {
		l.Listening("http://" + listener.Addr().String() + "/readyz")
	}

	succeeded := false
	for {
		err := pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		ready.Store(err == nil)
		succeeded = succeeded || err == nil
		wait := l.Interval
		if !succeeded {
			wait = firstRetry
		}
		if err != nil {
			log.ErrorContext(ctx, "the pass failed", "error", err, "again", wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case err := <-served:
			timer.Stop()
			return fmt.Errorf("serve /readyz: %w", err)
		case <-timer.C:
		}
	}
}
