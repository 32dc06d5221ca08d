package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestUnreachableAPINamesTheClock asks servers whose certificates are not valid yet, or no longer.
func TestUnreachableAPINamesTheClock(t *testing.T) {
	now := time.Now()
	for name, row := range map[string]struct {
		begin, end time.Time
		clock      bool
	}{
		"a clock that is behind": {now.Add(time.Hour), now.Add(2 * time.Hour), true},
		"a clock that is ahead":  {now.Add(-2 * time.Hour), now.Add(-time.Hour), true},
		"the right clock":        {now.Add(-time.Hour), now.Add(time.Hour), false},
	} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		cert := selfSigned(t, row.begin, row.end)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		server.StartTLS()
		t.Cleanup(server.Close)
		trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
		view, err := ViewOf(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: trusted}}, false)
		if err != nil {
			t.Fatal(err)
		}
		if api := view.API(t.Context()); api.Ready || strings.Contains(api.Why, "timedatectl set-time") != row.clock {
			t.Errorf("%s: %+v", name, api)
		}
	}
}

func selfSigned(t *testing.T, begin, end time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
