package controlplane

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
)

// Through reaches an API server through a handler, for failures that the server does not produce on demand. The handler
// calls pass for each request that it lets through.
func Through(t testing.TB, cfg *rest.Config, handle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval, proxy.ErrorLog = transport, -1, log.New(io.Discard, "", 0) // immediately, for watches
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, proxy) }))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
}
