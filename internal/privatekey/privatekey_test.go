package privatekey_test

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/privatekey"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestParse(t *testing.T) {
	t.Parallel()
	of := must[[]byte](t)
	curve := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	rsaKey := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	agreement := must[*ecdh.PrivateKey](t)(ecdh.X25519().GenerateKey(rand.Reader))
	sec1 := block("EC PRIVATE KEY", of(x509.MarshalECPrivateKey(curve)))
	for name, row := range map[string]struct {
		text string
		want crypto.Signer
		err  string
	}{
		"PKCS#1":                        {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), rsaKey, ""},
		"PKCS#8":                        {block("PRIVATE KEY", of(x509.MarshalPKCS8PrivateKey(curve))), curve, ""},
		"SEC 1":                         {sec1, curve, ""},
		"parameters of the curve first": {block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}) + sec1, curve, ""},
		"a key that cannot sign":        {block("PRIVATE KEY", of(x509.MarshalPKCS8PrivateKey(agreement))), nil, "cannot sign"},
		"damaged":                       {block("PRIVATE KEY", []byte("x")), nil, `block "PRIVATE KEY" is damaged`},
		"encrypted":                     {block("ENCRYPTED PRIVATE KEY", []byte("x")), nil, "no private key"},
		"empty":                         {"", nil, "no private key"},
	} {
		got, err := privatekey.Parse([]byte(row.text))
		if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v", name, err)
		}
		if row.want != nil && (got == nil || !row.want.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(got.Public())) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	key := must[*ecdsa.PrivateKey](f)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	f.Add([]byte(block("EC PRIVATE KEY", must[[]byte](f)(x509.MarshalECPrivateKey(key)))))
	f.Add([]byte(block("PRIVATE KEY", must[[]byte](f)(x509.MarshalPKCS8PrivateKey(key)))))
	f.Fuzz(func(t *testing.T, text []byte) {
		if key, err := privatekey.Parse(text); err == nil && key.Public() == nil {
			t.Error("a key without its public half")
		}
	})
}
