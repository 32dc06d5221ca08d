package webhook

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
)

// anotherCA is the certificate of a new CA.
func anotherCA(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixture.CA(t), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTrustOverlaps(t *testing.T) {
	before, after := anotherCA(t), anotherCA(t)
	var held trust
	if got := held.with(after); string(got) != string(after) {
		t.Error("a CA alone is not as it was given")
	}
	held.keep(before)
	held.keep(before)
	both := held.with(after)
	if !contains(both, before) || !contains(both, after) || len(certificates(both)) != 2 || contains(after, before) {
		t.Errorf("both are %d certificates", len(certificates(both)))
	}
	if held.end() {
		t.Error("the old CA ends at once")
	}
	held.until = time.Now()
	if !held.end() || held.end() || contains(held.with(after), before) {
		t.Error("the old CA does not end")
	}
}

// TestStandbyWaitsForLeader: a standby shows a certificate of a CA that the leader has written, or after a while.
func TestStandbyWaitsForLeader(t *testing.T) {
	before, after := anotherCA(t), anotherCA(t)
	var bundle atomic.Pointer[[]byte]
	bundle.Store(&before)
	var away atomic.Bool
	const at = "/apis/admissionregistration.k8s.io/v1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case away.Load():
			http.Error(w, "no", http.StatusForbidden)
		case r.URL.Path == at:
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"admissionregistration.k8s.io/v1","resources":[` +
				`{"name":"validatingwebhookconfigurations","kind":"ValidatingWebhookConfiguration"},{"name":"mutatingwebhookconfigurations","kind":"MutatingWebhookConfiguration"}]}`))
		case r.URL.Path == at+"/validatingwebhookconfigurations/mine-hooks":
			_, _ = w.Write([]byte(`{"kind":"ValidatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"mine-hooks"},"webhooks":[` +
				`{"name":"a.b.c","clientConfig":{"service":{"namespace":"ops","name":"svc"},"caBundle":"` + base64.StdEncoding.EncodeToString(*bundle.Load()) + `"}},` +
				`{"name":"of.another.one","clientConfig":{"service":{"namespace":"ops","name":"other"}}}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		}
	}))
	t.Cleanup(server.Close)
	cluster, err := kube.Connect(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := New(t.Context(), Options{
		Cluster: cluster, Namespace: "ops", ConfigurationName: "mine", Admission: Endpoint{Service: "svc"},
		Leads: func() bool { return false }, Leader: func(context.Context) string { return "" },
	}).admission
	old, fresh := &certificate{ca: before, sum: [32]byte{1}}, &certificate{ca: after, sum: [32]byte{2}}
	e.shown.Store(old)
	try := func() bool {
		e.trust.again = time.Time{}
		return e.rotate(t.Context(), old, fresh)
	}
	if try() {
		t.Error("a certificate is shown whose CA the API server does not trust")
	}
	if e.rotate(t.Context(), old, fresh) {
		t.Error("it is looked at again at once")
	}
	both := joined(before, after)
	bundle.Store(&both)
	away.Store(true)
	if try() {
		t.Error("a certificate is shown while the API server is away")
	}
	away.Store(false)
	if !try() || e.shown.Load() != fresh || !contains(e.trust.with(after), before) {
		t.Error("the certificate is not shown, or the old CA is trusted no longer")
	}
	e.trust = trust{}
	if e.inherit(t.Context()); !contains(e.trust.with(after), before) {
		t.Error("a new leader drops the CA of the others")
	}
	e.trust = trust{next: fresh.sum, since: time.Now().Add(-2 * overlapTime)}
	if !e.trust.overdue() {
		t.Error("the certificate is never shown")
	}
}
