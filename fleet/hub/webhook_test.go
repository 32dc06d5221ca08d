package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/flood"
)

// TestUnsentBodiesDelayNoReview opens requests whose bodies do not arrive. Concurrent reviews are answered at once.
func TestUnsentBodiesDelayNoReview(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newBounds(nil).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, " ", err)
	})))
	t.Cleanup(server.Close)
	for range 2 * maxReviews {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := fmt.Fprintf(c, "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", maxReview); err != nil {
			t.Fatal(err)
		}
	}
	for _, length := range []int{1000, 4 << 20} {
		client := http.Client{Timeout: readTime / 2}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(make([]byte, length)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Errorf("a review of %d bytes: %v", length, err)
			continue
		}
		text, err := io.ReadAll(answer.Body)
		if want := fmt.Sprint(length, " <nil>"); err != nil || string(text) != want {
			t.Errorf("a review of %d bytes: %s, %v", length, text, err)
		}
		_ = answer.Body.Close()
	}
}

// TestWebhooksBoundConnections opens connections from one address, and a review from another.
func TestWebhooksBoundConnections(t *testing.T) {
	t.Parallel()
	dir := fixture.CA(t)
	pair := fixture.ClientCertificate(t, dir, "webhooks")
	w, err := listen(t.Context(), nil, Options{Log: slog.New(slog.DiscardHandler), Webhook: Webhook{Listen: "127.0.0.1:0", Cert: pair, Key: pair, CA: filepath.Join(dir, "ca.crt")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	const connections = 300
	kept, err := flood.Kept(t.Context(), w.address(), netip.MustParseAddr("127.0.9.20"), connections)
	if err != nil || kept == 0 || kept >= connections {
		t.Errorf("%d of %d connections are kept, %v", kept, connections, err)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	answer, err := client.Post("https://"+w.address()+crd.ConversionPath, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusBadRequest || answer.ProtoMajor != 2 {
		t.Errorf("a review without a request: %s over %s", answer.Status, answer.Proto)
	}
}

// added is a manager that only takes what is added.
type added struct {
	manager.Manager
	list []manager.Runnable
}

func (a *added) Add(r manager.Runnable) error {
	a.list = append(a.list, r)
	return nil
}

// TestWebhooksAreKept has an API server that fails once. Only the hub that decides asks it.
func TestWebhooksAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &added{}
		h := &Hub{Manager: m, Log: slog.New(slog.DiscardHandler), every: 15 * time.Second}
		began := time.Now()
		var asked []time.Duration
		err := h.Keep(func(context.Context) error {
			if asked = append(asked, time.Since(began)); len(asked) == 1 {
				return errors.New("it starts")
			}
			return nil
		})
		if err != nil || len(m.list) != 1 {
			t.Fatalf("%d added: %v", len(m.list), err)
		}
		if all, ok := m.list[0].(manager.LeaderElectionRunnable); ok && !all.NeedLeaderElection() {
			t.Error("every hub asks the API server")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		if err := m.list[0].Start(ctx); err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, 15 * time.Second, 30 * time.Second}; !slices.Equal(asked, want) {
			t.Errorf("asked after %v", asked)
		}
	})
}
