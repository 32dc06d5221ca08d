package signature_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func sign(t *testing.T, key *signature.Key, data []byte) []byte {
	t.Helper()
	sig, err := key.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

func TestOnlySignedBytesVerifyWithSignersKey(t *testing.T) {
	key, public := fixture.SigningKey(t)
	_, other := fixture.SigningKey(t)
	data := []byte(`{"format": "x"}`)
	sig := sign(t, key, data)
	if !public.Verify(data, sig) {
		t.Error("the signature does not verify")
	}
	if other.Verify(data, sig) {
		t.Error("the signature verifies with another key")
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if public.Verify(changed, sig) {
			t.Errorf("verifies with byte %d flipped", i)
		}
	}
	for _, bad := range []string{"", "!", "AAAA", string(sig[:len(sig)/2])} {
		if public.Verify(data, []byte(bad)) {
			t.Errorf("%q passes for a signature", bad)
		}
	}
}

// TestSignaturesFollowRFC6979 holds the signature of "sample" against RFC 6979 §A.2.5.
func TestSignaturesFollowRFC6979(t *testing.T) {
	number := func(text string) []byte {
		n, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	raw, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), number("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721"))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(sign(t, key, []byte("sample")))))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716",
		"F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8",
	} {
		if !bytes.Contains(got, number(part)) {
			t.Errorf("signature %x lacks %s", got, part)
		}
	}
}

func TestPrivateKeysAreReadInEveryFormat(t *testing.T) {
	fixture.Unapproved(t, fips.PrivateKeys)
	key, public := fixture.SigningKey(t)
	sealed, err := key.Marshal([]byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	if !signature.IsEncrypted(sealed) {
		t.Error("the key is not encrypted")
	}
	again, err := signature.ParseKey(sealed, []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	if !public.Verify([]byte("x"), sign(t, again, []byte("x"))) {
		t.Error("the key that was read is another")
	}
	if _, err := signature.ParseKey(sealed, []byte("open barley")); !errors.Is(err, signature.ErrPassphrase) {
		t.Errorf("with a wrong passphrase: %v", err)
	}
	old := bytes.ReplaceAll(sealed, []byte("SIGSTORE"), []byte("COSIGN"))
	if _, err := signature.ParseKey(old, []byte("open sesame")); err != nil {
		t.Errorf("cosign's older form: %v", err)
	}
	for name, args := range map[string][]string{
		"SEC 1 of openssl":   {"ecparam", "-genkey", "-name", "prime256v1"},
		"PKCS #8 of openssl": {"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"},
	} {
		out, err := exec.CommandContext(t.Context(), "openssl", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signature.ParseKey(out, nil); err != nil || signature.IsEncrypted(out) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOtherKeysAreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"another curve": {"ecparam", "-genkey", "-name", "secp384r1"},
		"Ed25519":       {"genpkey", "-algorithm", "ED25519"},
	} {
		out, err := exec.CommandContext(t.Context(), "openssl", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signature.ParseKey(out, nil); err == nil || !strings.Contains(err.Error(), "P-256") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := signature.ParseKey([]byte("hello"), nil); err == nil {
		t.Error("text passes for a private key")
	}
	if _, err := signature.ParsePublicKey([]byte("hello")); err == nil {
		t.Error("text passes for a public key")
	}
}

func TestOpensslVerifiesSignature(t *testing.T) {
	key, public := fixture.SigningKey(t)
	dir := t.TempDir()
	data := []byte("the index")
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(sign(t, key, data))))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"index": data, "sig": der, "pub": public.Marshal()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "openssl", "dgst", "-sha256", "-verify", "pub", "-signature", "sig", "index")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Verified OK") {
		t.Errorf("%v: %s", err, out)
	}
	read, err := signature.ParsePublicKey(public.Marshal())
	if err != nil || read.Fingerprint() != public.Fingerprint() {
		t.Errorf("the public key read again: %v", err)
	}
}

func FuzzParseKey(f *testing.F) {
	_, public := fixture.SigningKey(f)
	f.Add(public.Marshal())
	f.Add([]byte("-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if public, err := signature.ParsePublicKey(data); err == nil {
			again, err := signature.ParsePublicKey(public.Marshal())
			if err != nil || again.Fingerprint() != public.Fingerprint() {
				t.Errorf("a key that was read is not written as it was: %v", err)
			}
			public.Verify(data, data)
		}
		if !signature.IsEncrypted(data) { // deciding on those takes seconds of scrypt
			_, _ = signature.ParseKey(data, nil)
		}
	})
}

// TestFIPSModeRefusesToEncryptKeys also checks that a key that was encrypted before can be read.
func TestFIPSModeRefusesToEncryptKeys(t *testing.T) {
	fixture.InFIPSMode(t, func(t *testing.T) {
		key, _ := fixture.SigningKey(t)
		if sealed, err := key.Marshal([]byte("open sesame")); err == nil || !strings.Contains(err.Error(), "openssl ecparam") {
			t.Errorf("got %s, %v", sealed, err)
		}
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := encrypted.Encrypt(der, []byte("open sesame"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signature.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: sealed}), []byte("open sesame")); err != nil {
			t.Errorf("an earlier key: %v", err)
		}
	})
}
