package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestReturningAPIIsAwaited(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			http.Error(w, `forbidden: User "kubernetes-admin" cannot get path "/readyz"`, http.StatusForbidden)
		case 2:
			http.Error(w, "[+]ping ok\n[-]etcd failed: reason withheld\n", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	view, err := ViewOf(&rest.Config{Host: server.URL}, false)
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	if err := view.waitAPI(t.Context(), &output, revival{}); err != nil {
		t.Fatal(err)
	}
	if got := output.String(); asked.Load() != 3 || !strings.Contains(got, "waiting for the Kubernetes API at "+server.URL) || !strings.Contains(got, "etcd failed") {
		t.Errorf("asked %d times:\n%s", asked.Load(), got)
	}
}

func TestUnreachableAPIIsReported(t *testing.T) {
	view, err := ViewOf(&rest.Config{Host: "http://127.0.0.1:1"}, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = view.waitAPI(ctx, &bytes.Buffer{}, revival{})
	for _, want := range []string{"http://127.0.0.1:1 is not ready", "connection refused", "journalctl --unit kubelet", "systemctl restart kubelet"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestAPIWithEndedCertificateIsNotAwaited: it may get another one within a moment.
func TestAPIWithEndedCertificateIsNotAwaited(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	ended := fixture.EndedCertificate(t, "127.0.0.1")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ended}}
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ended.Certificate[0]})
	view, err := ViewOf(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, false)
	if err != nil {
		t.Fatal(err)
	}
	view.invalid = 1500 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var output bytes.Buffer
	err = view.waitAPI(ctx, &output, revival{})
	for _, want := range []string{server.URL, "its certificate is valid from", "and not now, by the clock of this host", "set it", "sealift certs renew"} {
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if lines := strings.Count(output.String(), "\n"); lines != 1 {
		t.Errorf("%d lines: %s", lines, output.String())
	}
}

func TestUnreachableAPIIsRestartedOnce(t *testing.T) {
	var revived atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revived.Load() == 0 {
			http.Error(w, "[-]etcd failed: reason withheld\n", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	view, err := ViewOf(&rest.Config{Host: server.URL}, false)
	if err != nil {
		t.Fatal(err)
	}
	late := make(chan time.Time, 1)
	late <- time.Now()
	var output bytes.Buffer
	if err := view.waitAPI(t.Context(), &output, revival{late, func() error { revived.Add(1); return nil }}); err != nil {
		t.Fatal(err)
	}
	if got := output.String(); revived.Load() != 1 || !strings.Contains(got, "restarting the kubelet") {
		t.Errorf("brought back %d times:\n%s", revived.Load(), got)
	}

	revived.Store(0)
	late <- time.Now()
	failure := errors.New("no systemd")
	if err := view.waitAPI(t.Context(), &output, revival{late, func() error { return failure }}); !errors.Is(err, failure) {
		t.Errorf("got %v, want what the restart said", err)
	}
}
