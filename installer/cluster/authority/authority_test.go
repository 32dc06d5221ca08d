package authority_test

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

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// ca is a host with only a CA of the cluster.
func ca(t testing.TB, change func(*x509.Certificate)) (rootfs string) {
	t.Helper()
	rootfs = t.TempDir()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	if change != nil {
		change(template)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, rootfs, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	put(t, rootfs, "ca.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	return rootfs
}

func put(t testing.TB, rootfs, name string, text []byte) {
	t.Helper()
	folder := filepath.Join(rootfs, kubeadm.PKI)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, rootfs, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rootfs, kubeadm.PKI, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWorkerGetsNoCAKey(t *testing.T) {
	s, err := authority.New(ca(t, nil), []string{authority.Cluster}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	public, ok := s.ForWorkers()
	if text := string(public.Encode()); !ok || strings.Contains(text, "PRIVATE") || !strings.Contains(string(s.Encode()), "PRIVATE") {
		t.Errorf("a worker gets %s", text)
	}
	if read, err := authority.Parse(public.Encode()); err != nil || read.Request() != s.Request() || read.Request() == s.In(authority.Sign).Request() {
		t.Errorf("%+v, %v", read, err)
	}
	if _, ok := (authority.State{Parts: []authority.Part{{Name: authority.Etcd}}}).ForWorkers(); ok {
		t.Error("a worker takes part in a rotation of etcd's CA")
	}
}

// TestUnsupportedCAsAreNotRotated: they are refused before anything changes.
func TestUnsupportedCAsAreNotRotated(t *testing.T) {
	other := ca(t, nil)
	for name, row := range map[string]struct {
		make func() string
		says string
	}{
		"ended":          {func() string { return ca(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }) }, "expired on"},
		"not begun":      {func() string { return ca(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }) }, "set the clock"},
		"no CA below it": {func() string { return ca(t, func(c *x509.Certificate) { c.MaxPathLenZero = true }) }, "path length"},
		"no CA":          {func() string { return ca(t, func(c *x509.Certificate) { c.IsCA = false }) }, "not the certificate of a CA"},
		"key elsewhere":  {func() string { r := ca(t, nil); remove(t, r, "ca.key"); return r }, "kept elsewhere"},
		"key of another": {func() string { r := ca(t, nil); put(t, r, "ca.key", get(t, other, "ca.key")); return r }, "does not fit"},
		"two in the file": {func() string {
			r := ca(t, nil)
			put(t, r, "ca.crt", append(get(t, r, "ca.crt"), get(t, other, "ca.crt")...))
			return r
		}, "more than one"},
		"an empty file": {func() string { r := ca(t, nil); put(t, r, "ca.crt", nil); return r }, "has no certificate"},
	} {
		if _, err := authority.New(row.make(), []string{authority.Cluster}, time.Now()); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func remove(t testing.TB, rootfs, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(rootfs, kubeadm.PKI, name)); err != nil {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	s, err := authority.New(ca(f, nil), []string{authority.Cluster}, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.Encode())
	f.Add([]byte(`{"id":"20300101T000000.000Z","stage":"trust","parts":[{"name":"service-accounts","old":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := authority.Parse(text)
		if err != nil {
			return
		}
		for _, p := range s.Parts {
			if _, _, err := p.Certificates(); p.IsCA() && err != nil {
				t.Error(err)
			}
		}
	})
}
