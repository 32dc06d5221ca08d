package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/flood"
	"github.com/sealift/sealift/operator/binding"
)

func TestPathIsShortest(t *testing.T) {
	all := []binding.Step{
		{From: "v1alpha1", To: "v1alpha2"}, {From: "v1alpha2", To: "g/v1beta1"}, {From: "g/v1beta1", To: "v1"},
		{From: "v1alpha1", To: "v1beta1"}, {From: "g/v1alpha1", To: "v1beta1"}, {From: "v1", To: "v1beta1"},
		{From: "other/v1", To: "g/v1alpha1"}, {From: "v11", To: "v1alpha1"},
	}
	var steps []*conversion
	for _, s := range all {
		steps = append(steps, &conversion{step: s})
	}
	for _, row := range []struct{ from, to, want string }{
		{"g/v1alpha1", "g/v1", "g/v1alpha1>v1beta1 g/v1beta1>v1"}, // of two equal ones, the one with a group
		{"g/v1alpha2", "g/v1", "v1alpha2>g/v1beta1 g/v1beta1>v1"},
		{"g/v1", "g/v1beta1", "v1>v1beta1"},
		{"g/v1", "g/v1alpha1", ""}, // v1 is not a prefix of v11, and not that of another group
		{"g/v1", "g/v1", ""},       // there is nothing to do
		{"g/v1beta1", "g/v2", ""},  // nobody creates it
		{"h/v1alpha1", "g/v1", ""}, // objects of another group
		{"g/v11", "g/v1beta1", "v11>v1alpha1 g/v1alpha1>v1beta1"},
	} {
		var got []string
		for _, c := range path(steps, row.from, row.to) {
			got = append(got, c.step.From+">"+c.step.To)
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s to %s: %v, want %s", row.from, row.to, got, row.want)
		}
	}
}

// review runs a request through the handler of an endpoint.
func (e *endpoint) review(t *testing.T, path, kind string, body io.Reader) (int, string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
	req.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	e.limited().ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

func object1(version, name string) string {
	return fmt.Sprintf(`{"apiVersion":"g/%s","metadata":{"name":"%s"}}`, version, name)
}

func conversionReview(objects ...string) io.Reader {
	return strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"g/v3","objects":[` + strings.Join(objects, ",") + `]}}`)
}

// TestConversionsKeepOrder converts objects of several versions: each step sees those of one version.
func TestConversionsKeepOrder(t *testing.T) {
	var seen []string
	answer := func(c binding.Context) string {
		var review struct{ Request conversionRequest }
		if err := json.Unmarshal(c.Review, &review); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(review.Request.Objects)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprintf("%s>%s %d", c.FromVersion, c.ToVersion, len(review.Request.Objects)))
		return fmt.Sprintf(`{"convertedObjects":%s}`, strings.ReplaceAll(string(text), "g/"+c.FromVersion, "g/"+c.ToVersion))
	}
	var wrong *string
	h := Hook{Name: "hook.sh", Config: &binding.Config{Conversions: []binding.Conversion{
		{CRD: "x.g", Steps: []binding.Step{{From: "v1", To: "v2"}, {From: "v2", To: "v3"}, {From: "v4", To: "v5"}, {From: "v5", To: "v6"}, {From: "v6", To: "v3"}}},
	}}, Run: func(_ context.Context, c binding.Context) ([]byte, error) {
		if wrong != nil && *wrong == "fails" {
			return nil, errors.New("it printed last: secret")
		}
		if wrong != nil {
			return []byte(*wrong), nil
		}
		return []byte(answer(c)), nil
	}}
	s := New(t.Context(), Options{})
	r, err := route([]Hook{h})
	if err != nil {
		t.Fatal(err)
	}
	s.routes.Store(r)
	all := conversionReview(object1("v1", "a"), object1("v3", "b"), object1("v2", "c"), object1("v1", "d"))
	code, body := s.conversion.review(t, "/x.g", "application/json", all)
	want := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"u","convertedObjects":[` +
		strings.Join([]string{object1("v3", "a"), object1("v3", "b"), object1("v3", "c"), object1("v3", "d")}, ",") + `],"result":{"metadata":{},"status":"Success"}}}`
	if code != http.StatusOK || body != want {
		t.Errorf("%d\n%s\n%s", code, body, want)
	}
	if got := strings.Join(seen, ", "); got != "v1>v2 2, v2>v3 3" {
		t.Error(got)
	}
	for answer, want := range map[string]string{
		"fails":                       `"message":"Hook failed to convert to g/v3"`,
		"":                            "it wrote nothing to $CONVERSION_RESPONSE_PATH",
		"{":                           "is invalid",
		`{"failedMessage":"no luck"}`: `"message":"no luck"`,
		`{"failedMessage":"first"}{"failedMessage":"second"}`: `"message":"first"`,
		`{"convertedObjects":[]}`:                             "it returned 0 objects instead of 1",
		`{"convertedObjects":[{}]}`:                           "object 0 has no apiVersion",
		`{"convertedObjects":[` + object1("v1", "a") + `]}`:   "convertedObjects[0] still has the version g/v1",
		`{"convertedObjects":[` + object1("v9", "a") + `]}`:   "no hook converts g/v9 to g/v3",
	} {
		wrong = &answer
		if code, body := s.conversion.review(t, "/x.g", "application/json", conversionReview(object1("v1", "a"))); code != http.StatusOK || !strings.Contains(body, want) || !strings.Contains(body, `"status":"Failure"`) {
			t.Errorf("%s: %d %s", answer, code, body)
		}
	}
}

func TestRequestsAreBounded(t *testing.T) {
	s := New(t.Context(), Options{})
	h := Hook{Name: "hook.sh", Config: &binding.Config{Validating: []binding.Admission{{Common: binding.Common{Name: "a.b.c"}, Timeout: 1}}},
		Run: func(ctx context.Context, _ binding.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
	r, err := route([]Hook{h})
	if err != nil {
		t.Fatal(err)
	}
	s.routes.Store(r)
	review := func() io.Reader { return strings.NewReader(`{"request":{"uid":"u"}}`) }
	for name, row := range map[string]struct {
		path, kind string
		body       io.Reader
		code       int
		want       string
	}{
		"a webhook that nobody has":   {"/hooks/x.y.z", "application/json", review(), http.StatusNotFound, ""},
		"something else than JSON":    {"/hooks/a.b.c", "text/plain", review(), http.StatusUnsupportedMediaType, ""},
		"no review":                   {"/hooks/a.b.c", "application/json", strings.NewReader("{}"), http.StatusBadRequest, "this is not a review"},
		"a review without a UID":      {"/hooks/a.b.c", "application/json", strings.NewReader(`{"request":{}}`), http.StatusBadRequest, "request.uid is missing"},
		"a body that is too large":    {"/hooks/a.b.c", "application/json", io.LimitReader(zeros{}, admissionSize+1), http.StatusRequestEntityTooLarge, "the body has more than 16777216 bytes"},
		"a hook that does not return": {"/hooks/a.b.c", "application/json", review(), http.StatusGatewayTimeout, "the hook did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, body := s.admission.review(t, row.path, row.kind, row.body); code != row.code || !strings.Contains(body, row.want) {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

// TestDuplicateWebhookNamesAreRefused, which keeps neither the first of them nor others from being served. An endpoint that cannot be
// opened, here without a certificate, opens later.
func TestDuplicateWebhookNamesAreRefused(t *testing.T) {
	config := &binding.Config{Validating: []binding.Admission{{Common: binding.Common{Name: "a.b.c"}}}}
	other := &binding.Config{Validating: []binding.Admission{{Common: binding.Common{Name: "x.b.c"}}}}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s := New(ctx, Options{Namespace: "n", Leads: func() bool { return false }, Admission: Endpoint{
		Listen: "127.0.0.1:0", CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CAFile: filepath.Join(dir, "ca.crt"),
	}})
	defer func() { cancel(); s.Wait() }()
	err := s.Set([]Hook{{Name: "one.sh", Config: config}, {Name: "two.sh", Config: config}, {Name: "three.sh", Config: other}})
	if err == nil || !strings.Contains(err.Error(), "hook two.sh: kubernetesValidating[0].name: hook one.sh also has a webhook a.b.c") || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if all := s.routes.Load().admissions; len(all) != 2 || all["a.b.c"].hook.Name != "one.sh" || all["x.b.c"].hook.Name != "three.sh" {
		t.Errorf("served are %v", all)
	}
	a, err := newAuthority("svc")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.issue(s.admission.names())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.crt": cert, "ca.crt": a.pem, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); s.admission.Address() == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the endpoint was not opened within a minute")
		}
	}
	err = New(t.Context(), Options{}).Set([]Hook{{Name: "one.sh", Config: config}})
	if err == nil || !strings.Contains(err.Error(), "give --namespace") {
		t.Error(err)
	}
}

// file issues a certificate, and writes it to a file with its key.
func (a *authority) file(t *testing.T, names ...string) string {
	t.Helper()
	cert, key, err := a.issue(names)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pair.pem")
	if err := os.WriteFile(file, append(cert, key...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestClientNeedsCertificateOfClientCA connects with and without one.
func TestClientNeedsCertificateOfClientCA(t *testing.T) {
	a, err := newAuthority("svc")
	if err != nil {
		t.Fatal(err)
	}
	clients := fixture.CA(t)
	leader := func(context.Context) string { return "" }
	s := New(t.Context(), Options{Namespace: "n", Leader: leader, Admission: Endpoint{Service: "svc", ClientCAFiles: []string{filepath.Join(clients, "ca.crt")}}})
	cert, key, err := a.issue(s.admission.names())
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.admission.make(cert, key, a.pem)
	if err != nil {
		t.Fatal(err)
	}
	if a.expires(made) {
		t.Error("a new certificate counts as old")
	}
	if leaf := made.config.Certificates[0].Leaf; !leaf.NotBefore.Equal(a.pair.Leaf.NotBefore) {
		t.Errorf("it begins on %s, and its authority on %s", leaf.NotBefore, a.pair.Leaf.NotBefore)
	}
	server := httptest.NewUnstartedServer(s.admission.limited())
	server.TLS = made.config
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.pem)
	for name, row := range map[string]struct {
		file string
		ok   bool
	}{
		"none":                  {"", false},
		"one of its authority":  {fixture.ClientCertificate(t, clients, "apiserver"), true},
		"one of another":        {fixture.ClientCertificate(t, fixture.CA(t), "apiserver"), false},
		"that of a replica":     {a.file(t, s.admission.names()...), true},
		"one of another server": {a.file(t, "other.n.svc"), false},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{RootCAs: pool, ServerName: "svc.n.svc"}
			if row.file != "" {
				pair, err := tls.LoadX509KeyPair(row.file, row.file)
				if err != nil {
					t.Fatal(err)
				}
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 10 * time.Second}
			resp, err := client.Get(server.URL + "/healthz")
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != row.ok {
				t.Error(err)
			}
		})
	}
}

// TestStandbyReachesLeaderWithClientCA: the leader answers a review that a standby forwards, even with a client CA.
func TestStandbyReachesLeaderWithClientCA(t *testing.T) {
	a, err := newAuthority("svc")
	if err != nil {
		t.Fatal(err)
	}
	admission := Endpoint{Service: "svc", ClientCAFiles: []string{filepath.Join(fixture.CA(t), "ca.crt")}}
	replica := func(name, listen, leader string) *endpoint {
		admission.Listen = listen
		e := New(t.Context(), Options{Namespace: "n", Leader: func(context.Context) string { return leader }, Admission: admission}).admission
		cert, key, err := a.issue(e.names())
		if err != nil {
			t.Fatal(err)
		}
		made, err := e.make(cert, key, a.pem)
		if err != nil {
			t.Fatal(err)
		}
		e.shown.Store(made)
		e.answer = func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = io.WriteString(w, name) }
		return e
	}
	leader := replica("the leader", "", "")
	server := httptest.NewUnstartedServer(leader.limited())
	server.TLS = leader.shown.Load().config
	server.StartTLS()
	defer server.Close()
	standby := replica("the standby", server.Listener.Addr().String(), "127.0.0.1")
	if code, said := standby.review(t, "/hooks/x", "application/json", strings.NewReader("{}")); code != http.StatusOK || said != "the leader" {
		t.Errorf("%d %s", code, said)
	}
}

// TestUnsentBodiesHoldNoSlot opens more requests than there are slots. They announce reviews of the greatest size, and send
// nothing. Concurrent reviews are answered.
func TestUnsentBodiesHoldNoSlot(t *testing.T) {
	server := httptest.NewServer(New(t.Context(), Options{}).conversion.limited())
	t.Cleanup(server.Close)
	for range 2 * parallel {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := fmt.Fprintf(c, "POST /x.g HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", conversionSize); err != nil {
			t.Fatal(err)
		}
	}
	client := http.Client{Timeout: readTime / 2}
	for _, size := range []int{1, 4 << 20} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/x.g", bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(req)
		if err != nil {
			t.Errorf("a review of %d bytes: %v", size, err)
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound { // nobody has this webhook
			t.Errorf("a review of %d bytes: %s", size, answer.Status)
		}
	}
}

// TestUnreadableCertificateIsNamed reads a set of files with one missing or invalid.
func TestUnreadableCertificateIsNamed(t *testing.T) {
	dir := t.TempDir()
	e := New(t.Context(), Options{Admission: Endpoint{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CAFile: filepath.Join(dir, "ca.crt")}}).admission
	if _, err := e.fromFiles(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "tls.crt") {
		t.Error(err)
	}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("nothing"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.fromFiles(); err == nil || !strings.Contains(err.Error(), "tls.key") {
		t.Error(err)
	}
}

// TestEndpointBoundsConnections opens connections from one address, and requests /healthz from another.
func TestEndpointBoundsConnections(t *testing.T) {
	dir := fixture.CA(t)
	pair := fixture.ClientCertificate(t, dir, "webhooks")
	e := New(t.Context(), Options{Leads: func() bool { return false }, Admission: Endpoint{
		Listen: "127.0.0.1:0", CertFile: pair, KeyFile: pair, CAFile: filepath.Join(dir, "ca.crt"),
	}}).admission
	if err := e.open(); err != nil {
		t.Fatal(err)
	}
	const connections = 300
	kept, err := flood.Kept(t.Context(), e.Address(), netip.MustParseAddr("127.0.9.20"), connections)
	if err != nil || kept == 0 || kept >= connections {
		t.Errorf("%d of %d connections are kept, %v", kept, connections, err)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Get("https://" + e.Address() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz is %s", resp.Status)
	}
}
