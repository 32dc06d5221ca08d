package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/proxy"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/testgrid/lab/daemon"
)

// TestRestartedHubWritesNothing runs a hub twice at one address. Leases and their events do not count.
func TestRestartedHubWritesNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var writes []string
	config := controlplane.Through(t, controlplane.ForTest(t), func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/events") {
			mu.Lock()
			writes = append(writes, r.Method+" "+r.URL.Path)
			mu.Unlock()
		}
		pass.ServeHTTP(w, r)
	})
	address, err := daemon.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	run := func() (written []string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		decides := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- hub.Run(ctx, hub.Options{Config: config, Webhook: hub.Webhook{Listen: address}, Controllers: []hub.Controller{
				proxy.New(proxy.Options{}), func(_ context.Context, h *hub.Hub) error {
					go func() {
						<-h.Elected()
						close(decides)
					}()
					return nil
				},
			}})
		}()
		select {
		case <-decides:
			time.Sleep(time.Second) // for the writes of controllers at their start
		case <-ctx.Done():
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		written, writes = writes, nil
		return written
	}
	if first := run(); len(first) == 0 {
		t.Fatal("the first hub writes nothing")
	}
	if again := run(); len(again) > 0 {
		t.Errorf("the second hub writes %q", again)
	}
}
