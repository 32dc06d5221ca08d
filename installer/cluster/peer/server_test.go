package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/testing/fixture"
)

const content = "a layer of an image"

var digits = strings.Repeat("1", 64) // of its digest

type stored struct{ *bytes.Reader }

func (stored) Close() error { return nil }

// cluster has the node "giver", which asks another node or party as.
type cluster struct {
	pki       string
	authority identity.Authority
	log       fixture.Buffer
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{pki: fixture.CA(t)}
	var err error
	if c.authority, err = identity.ReadAuthority(c.pki); err != nil {
		t.Fatal(err)
	}
	return c
}

// client is the connection of somebody who shows a certificate of this cluster; nil shows none.
func (c *cluster) client(t *testing.T, name string, groups ...string) *tls.ConnectionState {
	t.Helper()
	file := fixture.ClientCertificate(t, c.pki, name, groups...)
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	return verified(pair.Leaf)
}

func verified(leaf *x509.Certificate) *tls.ConnectionState {
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
}

// ask asks the node "giver".
func (c *cluster) ask(method, sha256, permit string, as *tls.ConnectionState, header ...string) *httptest.ResponseRecorder {
	s := &Server{
		Node: "giver", Log: slog.New(slog.NewTextHandler(&c.log, nil)),
		Trusted: func() ([]*x509.Certificate, error) { return c.authority.Trusted, nil },
		Blob: func(_ context.Context, sha256 string) (Blob, error) {
			if sha256 != digits {
				return nil, fs.ErrNotExist
			}
			return stored{bytes.NewReader([]byte(content))}, nil
		},
	}
	r := httptest.NewRequest(method, "https://giver"+Path+sha256+"?"+permitKey+"="+permit, nil)
	r.TLS = as
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestBlobNeedsPermit asks as everybody, and with permits for others.
func TestBlobNeedsPermit(t *testing.T) {
	c, another := newCluster(t), newCluster(t)
	controlPlane, err := c.authority.Issue("control-plane")
	if err != nil {
		t.Fatal(err)
	}
	taker := c.client(t, "system:node:taker", "system:nodes")
	valid := permit{digits, "taker", "giver", time.Now().Add(time.Minute)}
	other := strings.Repeat("2", 64)
	encode := func(p permit, a identity.Authority) string {
		text, err := p.encode(a, "control-plane")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := encode(valid, c.authority)
	for name, row := range map[string]struct {
		method, sha256, permit string
		as                     *tls.ConnectionState
		status                 int
	}{
		"a node with a permit":                {"GET", digits, good, taker, 200},
		"it asks for the size":                {"HEAD", digits, good, taker, 200},
		"a missing blob":                      {"GET", other, encode(permit{other, "taker", "giver", valid.End}, c.authority), taker, 404},
		"a control plane looks":               {"HEAD", digits, "", verified(controlPlane.Leaf), 200},
		"a control plane looks in vain":       {"HEAD", other, "", verified(controlPlane.Leaf), 404},
		"a control plane takes":               {"GET", digits, "", verified(controlPlane.Leaf), 403},
		"a control plane with a permit":       {"GET", digits, encode(permit{digits, "control-plane", "giver", valid.End}, c.authority), verified(controlPlane.Leaf), 403},
		"no permit":                           {"GET", digits, "", taker, 403},
		"no permit, the size":                 {"HEAD", digits, "", taker, 403},
		"the permit of another node":          {"GET", digits, good, c.client(t, "system:node:thief", "system:nodes"), 403},
		"for another blob":                    {"GET", digits, encode(permit{other, "taker", "giver", valid.End}, c.authority), taker, 403},
		"for another giver":                   {"GET", digits, encode(permit{digits, "taker", "third", valid.End}, c.authority), taker, 403},
		"an old one":                          {"GET", digits, encode(permit{digits, "taker", "giver", time.Now().Add(-time.Second)}, c.authority), taker, 403},
		"of another cluster":                  {"GET", digits, encode(valid, another.authority), taker, 403},
		"cut":                                 {"GET", digits, good[:len(good)-4], taker, 403},
		"no certificate":                      {"GET", digits, good, nil, 403},
		"no certificate that was verified":    {"GET", digits, good, &tls.ConnectionState{PeerCertificates: taker.PeerCertificates}, 403},
		"a person of the node's name":         {"GET", digits, good, c.client(t, "taker", "system:nodes"), 403},
		"an administrator":                    {"GET", digits, good, c.client(t, "kubernetes-admin", "system:masters"), 403},
		"a node that calls itself the master": {"HEAD", digits, "", c.client(t, "sealift:control-plane:taker"), 403},
		"a write":                             {"PUT", digits, good, taker, 405},
		"a path below":                        {"GET", digits + "/../x", good, taker, 403},
	} {
		w := c.ask(row.method, row.sha256, row.permit, row.as)
		if w.Code != row.status || (w.Body.String() == content) != (row.status == 200 && row.method == http.MethodGet) {
			t.Errorf("%s: %d %q, want %d", name, w.Code, w.Body, row.status)
		}
		if log := c.log.String(); row.status == 403 && !strings.Contains(log, "audit: refused") {
			t.Errorf("%s: logged\n%s", name, log)
		}
	}
	if w := c.ask("GET", digits, good, taker, "Range", "bytes=2-6"); w.Code != 206 || w.Body.String() != content[2:7] {
		t.Errorf("a range: %d %q", w.Code, w.Body)
	}
}

// TestPermitIsSignedForOnePurpose: what a control plane has signed for something else is not a permit.
func TestPermitIsSignedForOnePurpose(t *testing.T) {
	c := newCluster(t)
	text := []byte(`{"sha256":"` + digits + `","to":"taker","from":"giver","end":"2100-01-01T00:00:00Z"}`)
	for purpose, want := range map[identity.Purpose]bool{identity.ForPermit: true, identity.ForIntent: false} {
		signature, err := c.authority.Sign("control-plane", purpose, text)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := signed{text, signature}.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parsePermit(whole, c.authority.Trusted, time.Now()); (err == nil) != want {
			t.Errorf("signed as %q: %v", purpose, err)
		}
	}
}

// TestForeignClientsGetNoConnection connects with certificates of others, and without one.
func TestForeignClientsGetNoConnection(t *testing.T) {
	c, another := newCluster(t), newCluster(t)
	serving := fixture.KubeletServing(t, c.pki, "giver")
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = TLS(func() ([]*x509.Certificate, error) { return c.authority.Trusted, nil }, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(serving, serving)
		return &pair, err
	})
	server.StartTLS()
	defer server.Close()
	for name, row := range map[string]struct {
		file string
		ok   bool
	}{
		"a node":                 {fixture.ClientCertificate(t, c.pki, "system:node:taker", "system:nodes"), true},
		"another cluster's node": {fixture.ClientCertificate(t, another.pki, "system:node:taker", "system:nodes"), false},
		"a serving certificate":  {serving, false},
		"nobody":                 {"", false},
	} {
		config := &tls.Config{RootCAs: identity.Pool(c.authority.Trusted)}
		if row.file != "" {
			pair, err := tls.LoadX509KeyPair(row.file, row.file)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		response, err := client.Get(server.URL)
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
		client.CloseIdleConnections()
	}
}

// FuzzPermit parses what clients send.
func FuzzPermit(f *testing.F) {
	for _, text := range []string{"", "e30", "eyJwZXJtaXQiOiJlMzAiLCJzaWduYXR1cmUiOnt9fQ", "!"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parsePermit(text, nil, time.Now()); err == nil {
			t.Errorf("%q is a permit: %+v", text, p)
		}
	})
}
