package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

// listen lets a server answer at an address of this machine. Call the returned function to stop the server and wait for it.
func listen(t *testing.T, s *server.Server, certFile, keyFile string) (address string, end func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, certFile, keyFile) }()
	end = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = end() })
	return l.Addr().String(), end
}

// certificate writes a certificate with a number and its key.
func certificate(t *testing.T, dir string, number int64) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := atomicfile.Write(filepath.Join(dir, name), pem.EncodeToMemory(block)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
}

func TestRenewedCertificateIsUsedWithoutRestart(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := certificate(t, dir, 1)
	address, _ := listen(t, newServer(t, filled(t), nil), certFile, keyFile)
	shows := func(number int64) {
		t.Helper()
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
		resp, err := client.Get("https://" + address + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); got != number || resp.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("the certificate has the number %d, want %d", got, number)
		}
	}
	shows(1)
	old, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	certificate(t, dir, 2)
	shows(2)
	if err := atomicfile.Write(certFile, old); err != nil { // which does not go with the key
		t.Fatal(err)
	}
	shows(2)
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	shows(2)
	certificate(t, dir, 3)
	shows(3)
}

func TestServerWithoutCertificateDoesNotStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := newServer(t, filled(t), nil).Serve(t.Context(), l, filepath.Join(t.TempDir(), "none"), "none"); err == nil {
		t.Error("it serves")
	}
}

func TestLongTransfersAreCutAtShutdown(t *testing.T) {
	s := newServer(t, filled(t), func(o *server.Options) { o.Grace = 100 * time.Millisecond })
	address, end := listen(t, s, "", "")
	id := post(t, "http://"+address, installer(both))
	resp, err := http.Get("http://" + address + "/bundle/" + id + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := end(); err != nil {
		t.Error(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("a download of %d bytes that was cut ended after %d as if it were whole", resp.ContentLength, n)
	}
}

// TestMissingFolderIsNotAnEmptyStore removes the folder of the store under a server, and puts another there.
func TestMissingFolderIsNotAnEmptyStore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "packages")
	fresh := func() store.Store {
		t.Helper()
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		s := open(t, folder)
		fill(t, s)
		return s
	}
	s := serve(t, fresh(), nil)
	want := func(ready, given int) {
		t.Helper()
		for path, status := range map[string]int{"/readyz": ready, "/dist/base-1.0.tar.gz": given} {
			if a := ask(t, "GET", s.URL+path, ""); a.StatusCode != status {
				t.Errorf("%s: %s, want %d", path, a.Status, status)
			}
		}
	}
	want(http.StatusOK, http.StatusOK)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	want(http.StatusServiceUnavailable, http.StatusBadGateway)
	fresh()
	want(http.StatusOK, http.StatusOK)
}

func TestHTTPFieldsAreReadAsTheirStandardsSay(t *testing.T) {
	s := folder(t)
	ask(t, "PUT", s.URL+"/installer/demo", installer(both), "Authorization", "Bearer "+token) // 200 from now on
	for name, row := range map[string]struct {
		fields       []string
		status       int
		authenticate string
	}{
		"scheme in small letters": {[]string{"Authorization", "bearer " + token}, 200, ""},
		"another scheme":          {[]string{"Authorization", "Basic " + token}, 401, "Bearer"},
		"no token":                {nil, 401, "Bearer"},
		"compressed body":         {[]string{"Authorization", "Bearer " + token, "Content-Encoding", "gzip"}, 415, ""},
		"identity":                {[]string{"Authorization", "Bearer " + token, "Content-Encoding", "identity"}, 200, ""},
	} {
		if a := ask(t, "PUT", s.URL+"/installer/demo", installer(both), row.fields...); a.StatusCode != row.status || a.Header.Get("WWW-Authenticate") != row.authenticate {
			t.Errorf("%s: %s, WWW-Authenticate %q: %s", name, a.Status, a.Header.Get("WWW-Authenticate"), a.body)
		}
	}
	if a := ask(t, "DELETE", s.URL+"/installer/demo", ""); a.Header.Get("Allow") != "GET, HEAD, PUT" {
		t.Errorf("Allow is %q", a.Header.Get("Allow"))
	}
}
