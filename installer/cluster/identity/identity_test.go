package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func authority(t testing.TB, folder string) identity.Authority {
	t.Helper()
	a, err := identity.ReadAuthority(folder)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOnlyKeyOfCAProvesControlPlane(t *testing.T) {
	folder := fixture.CA(t)
	a := authority(t, folder)
	own, err := a.Issue("host-1", "10.0.0.1", "host-1")
	if err != nil {
		t.Fatal(err)
	}
	if node, ok := identity.ControlPlane(own.Leaf); !ok || node != "host-1" {
		t.Errorf("its own certificate: %q, %t", node, ok)
	}
	if _, ok := identity.Kubelet(own.Leaf); ok {
		t.Error("a control plane's certificate is that of a kubelet, too")
	}
	for name, change := range map[string]func(*x509.Certificate){
		"another usage of Sealift's arc": func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{2, 25, 1730498113, 2}} },
		"the name without the usage":     func(c *x509.Certificate) { c.UnknownExtKeyUsage = nil },
		"the usage without the name":     func(c *x509.Certificate) { c.Subject.CommonName = "host-1" },
		"no node in the name":            func(c *x509.Certificate) { c.Subject.CommonName = "sealift:control-plane:" },
		"a kubelet with the usage":       func(c *x509.Certificate) { c.Subject.CommonName = "system:node:host-1" },
	} {
		of := *own.Leaf
		change(&of)
		if node, ok := identity.ControlPlane(&of); ok {
			t.Errorf("%s proves control plane %q", name, node)
		}
	}
}

func TestClientIsWhatItsVerifiedCertificateProves(t *testing.T) {
	folder := fixture.CA(t)
	own, err := authority(t, folder).Issue("host-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		file string
		is   identity.Party
		node string
	}{
		"kubelet":                           {fixture.ClientCertificate(t, folder, "system:node:host-1", "system:nodes"), identity.Worker, "host-1"},
		"user with the name of a node":      {fixture.ClientCertificate(t, folder, "system:node:host-1", "users"), identity.Anonymous, ""},
		"user in the group of nodes":        {fixture.ClientCertificate(t, folder, "host-1", "system:nodes"), identity.Anonymous, ""},
		"user with a control plane's name":  {fixture.ClientCertificate(t, folder, "sealift:control-plane:host-1"), identity.Anonymous, ""},
		"node with a control plane's name":  {fixture.ClientCertificate(t, folder, "sealift:control-plane:host-1", "system:nodes"), identity.Anonymous, ""},
		"administrator of the API":          {fixture.ClientCertificate(t, folder, "kubernetes-admin", "system:masters"), identity.Anonymous, ""},
		"kubelet of a control plane's name": {fixture.ClientCertificate(t, folder, "system:node:sealift:control-plane:x", "system:nodes"), identity.Worker, "sealift:control-plane:x"},
		"kubelet with an empty name":        {fixture.ClientCertificate(t, folder, "system:node:", "system:nodes"), identity.Anonymous, ""},
	} {
		pair, err := tls.LoadX509KeyPair(row.file, row.file)
		if err != nil {
			t.Fatal(err)
		}
		state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}
		if is, node := identity.Client(state); is != identity.Anonymous || node != "" {
			t.Errorf("%s, not verified: %s %q", name, is, node)
		}
		state.VerifiedChains = [][]*x509.Certificate{state.PeerCertificates}
		if is, node := identity.Client(state); is != row.is || node != row.node {
			t.Errorf("%s: %s %q", name, is, node)
		}
	}
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{own.Leaf}, VerifiedChains: [][]*x509.Certificate{{own.Leaf}}}
	if is, node := identity.Client(state); is != identity.Member || node != "host-1" {
		t.Errorf("a control plane: %s %q", is, node)
	}
	if is, _ := identity.Client(nil); is != identity.Anonymous {
		t.Errorf("no TLS: %s", is)
	}
}

func TestSignatureIsOfOneControlPlaneForOneText(t *testing.T) {
	folder := fixture.CA(t)
	a := authority(t, folder)
	now, text := time.Now(), []byte("do it")
	signed, err := a.Sign("host-1", identity.ForIntent, text)
	if err != nil {
		t.Fatal(err)
	}
	if signed, err = identity.Parse(signed.Encode()); err != nil {
		t.Fatal(err)
	}
	if node, err := signed.Verify(a.Trusted, identity.ForIntent, text, now); err != nil || node != "host-1" {
		t.Errorf("signed by %q, %v", node, err)
	}
	stranger, err := authority(t, fixture.CA(t)).Sign("host-1", identity.ForIntent, text)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := byKubelet(t, folder, text)
	flipped := signed
	flipped.Value = append([]byte(nil), signed.Value...)
	flipped.Value[len(flipped.Value)-1] ^= 1
	cas, err := identity.ReadCAs(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		signature identity.Signature
		purpose   identity.Purpose
		text      string
		at        time.Time
	}{
		"another text":             {signed, identity.ForIntent, "do that", now},
		"another purpose":          {signed, identity.ForSnapshot, "do it", now},
		"another cluster":          {stranger, identity.ForIntent, "do it", now},
		"a kubelet of the cluster": {kubelet, identity.ForIntent, "do it", now},
		"nothing":                  {identity.Signature{}, identity.ForIntent, "do it", now},
		"no value":                 {identity.Signature{Certificate: signed.Certificate}, identity.ForIntent, "do it", now},
		"a broken certificate":     {identity.Signature{Certificate: []byte("x"), Value: signed.Value}, identity.ForIntent, "do it", now},
		"a flipped bit":            {flipped, identity.ForIntent, "do it", now},
		"after its end":            {signed, identity.ForIntent, "do it", now.Add(31 * 24 * time.Hour)},
		"before its beginning":     {signed, identity.ForIntent, "do it", now.Add(-2 * time.Hour)},
	} {
		if node, err := row.signature.Verify(cas, row.purpose, []byte(row.text), row.at); !errors.Is(err, identity.ErrUnsigned) {
			t.Errorf("%s: signed by %q, %v", name, node, err)
		}
	}
	if _, err := identity.Parse([]byte("{")); !errors.Is(err, identity.ErrUnsigned) {
		t.Errorf("half a signature: %v", err)
	}
}

// byKubelet signs as a worker could: with the key of a kubelet's certificate.
func byKubelet(t *testing.T, folder string, text []byte) identity.Signature {
	t.Helper()
	other := authority(t, fixture.CA(t))
	mine, err := other.Sign("host-1", identity.ForIntent, text)
	if err != nil {
		t.Fatal(err)
	}
	file := fixture.ClientCertificate(t, folder, "system:node:host-1", "system:nodes")
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	mine.Certificate = pair.Leaf.Raw
	return mine
}

// TestCertificateSignedByLeafIsRefused has a kubelet sign a control plane's certificate with its own key.
func TestCertificateSignedByLeafIsRefused(t *testing.T) {
	folder := fixture.CA(t)
	file := fixture.ClientCertificate(t, folder, "system:node:host-1", "system:nodes")
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "sealift:control-plane:host-1"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		UnknownExtKeyUsage: []asn1.ObjectIdentifier{{2, 25, 1730498113, 1}},
	}, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	signature := identity.Signature{Certificate: der, Value: []byte{1}}
	if node, err := signature.Verify(authority(t, folder).Trusted, identity.ForIntent, nil, time.Now()); !errors.Is(err, identity.ErrUnsigned) {
		t.Errorf("signed by %q, %v", node, err)
	}
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte(`{"certificate":"","value":""}`))
	f.Add([]byte(`{"certificate":"MAA=","value":"MAA="}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := identity.Parse(text)
		if err != nil {
			return
		}
		if node, err := s.Verify(nil, identity.ForIntent, text, time.Now()); err == nil {
			t.Errorf("%q is signed by %q, and no CA is trusted", text, node)
		}
	})
}

func TestEveryRightIsInMatrix(t *testing.T) {
	for _, right := range identity.Rights() {
		if right != identity.ReadScript && identity.Anonymous.Has(right) {
			t.Errorf("anonymous has %s", right)
		}
	}
	for _, secret := range []identity.Right{identity.ReadInstaller, identity.ReadKeys, identity.ReadCAKeys, identity.ReadUndo} {
		if identity.Worker.Has(secret) || identity.Token.Has(secret) {
			t.Errorf("a worker has %s", secret)
		}
	}
}
