package operator

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestLimitsOfRequests counts requests at a server, because an API server does not report how long a client has waited.
func TestLimitsOfRequests(t *testing.T) {
	arrived := make(chan time.Time, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- time.Now() }))
	defer server.Close()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	wrapped := 0
	wrap := func(next http.RoundTripper) http.RoundTripper { wrapped++; return next }
	var log bytes.Buffer
	f := clientFlags{server: server.URL, logged: true, all: limitFlags{flag: "kube-client", qps: "20", burst: "1"}, timeout: "7s", monitor: limitFlags{burst: "9"}}
	c, err := f.connect(wrap, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(config *rest.Config) {
		t.Helper()
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(config.Host + "/version")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	begin := time.Now()
	for range 3 { // each with its own transport, as Helm makes them
		ask(c.config)
	}
	if took := time.Since(begin); took < 90*time.Millisecond {
		t.Errorf("three requests at 20 a second took %s", took)
	}
	if len(arrived) != 3 || wrapped < 3 || strings.Count(log.String(), "path=/version status=200") != 3 {
		t.Errorf("%d requests arrived, %d transports; the log says\n%s", len(arrived), wrapped, &log)
	}
	if config, _ := c.patches.Config(); c.patches == c.all || config.Timeout != 7*time.Second {
		t.Errorf("patches have a timeout of %s", config.Timeout)
	}
	if c.monitor == c.all {
		t.Error("the look for objects has no limit of its own")
	}
	alone := clientFlags{server: server.URL}
	if c, err = alone.connect(wrap, nil); err != nil || c.patches != c.all || c.monitor != c.all {
		t.Errorf("without limits: %v, %v", c, err)
	}
	for want, wrong := range map[string]clientFlags{
		`--kube-client-qps "0" is not a number above 0`: {server: server.URL, all: limitFlags{flag: "kube-client", qps: "0"}},
		`--a-burst "1.5" is not a whole number`:         {server: server.URL, monitor: limitFlags{flag: "a", burst: "1.5"}},
		`-timeout "soon" is not a duration`:             {server: server.URL, timeout: "soon"},
	} {
		if _, err := wrong.connect(wrap, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
