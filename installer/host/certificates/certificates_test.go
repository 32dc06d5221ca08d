package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate makes one that signs itself.
func certificate(t *testing.T, name string, ca bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: ca}
	der, err := x509.CreateCertificate(rand.Reader, &of, &of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestStoreOfTheHostTakesCertificates lets Debian's own program rebuild a store, in a folder.
func TestStoreOfTheHostTakesCertificates(t *testing.T) {
	dir := t.TempDir()
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	local, etc := folder("local"), folder("etc")
	s := trustStore{local, ".crt", []string{"update-ca-certificates", "--localcertsdir", local, "--etccertsdir", etc, "--hooksdir", folder("hooks")}}
	one, two := certificate(t, "one", true), certificate(t, "two", true)
	for _, trusted := range [][]string{{one, two}, {two}, {}} {
		var all [][]byte
		for _, c := range trusted {
			all = append(all, []byte(c))
		}
		if err := s.trust(t.Context(), t.Output(), all); err != nil {
			t.Fatal(err)
		}
		bundle, err := os.ReadFile(filepath.Join(etc, "ca-certificates.crt"))
		if err != nil {
			t.Fatal(err)
		}
		for n, c := range []string{one, two} {
			want := n == 1 && len(trusted) > 0 || n == 0 && len(trusted) == 2
			if got := strings.Contains(string(bundle), c); got != want {
				t.Errorf("with %d certificates, number %d is trusted: %t, want %t", len(trusted), n+1, got, want)
			}
		}
	}
}
