// Package signature signs and verifies the index of an archive: ECDSA on P-256 over the sha256 of the bytes, in ASN.1 DER,
// as base64 on one line. `cosign sign-blob` and `cosign verify-blob` use the same format. `openssl dgst -sha256` uses it
// after base64 decoding.
//
// The package knows keys and bytes. The caller knows what the bytes mean and where the files are.
package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/sealift/sealift/internal/fips"
)

// MaxSize is the maximum size of a signature or key, in bytes. Real ones have a few hundred.
const MaxSize = 16 << 10

// The types of PEM blocks with keys. The first two are cosign's present and former types.
const (
	pemEncrypted    = "ENCRYPTED SIGSTORE PRIVATE KEY"
	pemEncryptedOld = "ENCRYPTED COSIGN PRIVATE KEY"
	pemPKCS8        = "PRIVATE KEY"
	pemSEC1         = "EC PRIVATE KEY"
	pemPublic       = "PUBLIC KEY"
)

// ErrPassphrase reports that the passphrase does not decrypt the private key.
var ErrPassphrase = errors.New("wrong passphrase for the key")

// Key is a private key.
type Key struct{ key *ecdsa.PrivateKey }

// PublicKey verifies signatures.
type PublicKey struct {
	key *ecdsa.PublicKey
	der []byte
}

// Generate makes a new key.
func Generate() (*Key, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return &Key{key}, nil
}

// Marshal returns the private key in cosign's format: PKCS #8, encrypted with a key that scrypt derives from the
// passphrase. An empty passphrase protects nothing. In FIPS mode it refuses that.
func (k *Key) Marshal(passphrase []byte) ([]byte, error) {
	if err := fips.PrivateKeys.Refuse(); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		return nil, fmt.Errorf("encode the private key: %w", err)
	}
	sealed, err := encrypted.Encrypt(der, passphrase)
	if err != nil {
		return nil, fmt.Errorf("encrypt the private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemEncrypted, Bytes: sealed}), nil
}

// IsEncrypted reports whether a private key needs a passphrase.
func IsEncrypted(data []byte) bool {
	block := find(data, pemEncrypted, pemEncryptedOld)
	return block != nil
}

// ParseKey reads a private key: cosign's encrypted form, or unencrypted PKCS #8 or SEC 1 as openssl writes it. A wrong
// passphrase returns ErrPassphrase.
func ParseKey(data, passphrase []byte) (*Key, error) {
	block := find(data, pemEncrypted, pemEncryptedOld, pemPKCS8, pemSEC1)
	if block == nil {
		return nil, errors.New("not a private key in PEM; make one with 'sealift key generate'")
	}
	der := block.Bytes
	if block.Type == pemEncrypted || block.Type == pemEncryptedOld {
		var err error
		if der, err = encrypted.Decrypt(der, passphrase); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPassphrase, err)
		}
	}
	var parsed any
	var err error
	if block.Type == pemSEC1 {
		parsed, err = x509.ParseECPrivateKey(der)
	} else {
		parsed, err = x509.ParsePKCS8PrivateKey(der)
	}
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the private key is not ECDSA on the curve P-256; make one with 'sealift key generate'")
	}
	return &Key{key}, nil
}

// find returns the first PEM block of one of the types. openssl writes the curve's parameters before the key.
func find(data []byte, types ...string) *pem.Block {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil
		}
		if slices.Contains(types, block.Type) {
			return block
		}
	}
}

// Public returns the public key.
func (k *Key) Public() (PublicKey, error) {
	der, err := x509.MarshalPKIXPublicKey(&k.key.PublicKey)
	if err != nil {
		return PublicKey{}, fmt.Errorf("encode the public key: %w", err)
	}
	return PublicKey{&k.key.PublicKey, der}, nil
}

// Sign returns the signature of data, with a newline at its end. It is deterministic (RFC 6979): the same key and data give
// the same signature, so a signed archive can be rebuilt byte for byte.
func (k *Key) Sign(data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	der, err := k.key.Sign(nil, sum[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return append(base64.StdEncoding.AppendEncode(nil, der), '\n'), nil
}

// ParsePublicKey reads a public key in PEM (PKIX), as cosign and openssl write it.
func ParsePublicKey(data []byte) (PublicKey, error) {
	block := find(data, pemPublic)
	if block == nil {
		return PublicKey{}, errors.New("not a public key in PEM; it is the file that ends in .pub")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return PublicKey{}, fmt.Errorf("read the public key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return PublicKey{}, errors.New("the public key is not ECDSA on the curve P-256")
	}
	return PublicKey{key, block.Bytes}, nil
}

// Marshal returns the key in PEM.
func (p PublicKey) Marshal() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: p.der})
}

// Fingerprint returns the key's name: "SHA256:" and the sha256 of its DER form in hex.
func (p PublicKey) Fingerprint() string {
	sum := sha256.Sum256(p.der)
	return "SHA256:" + hex.EncodeToString(sum[:])
}

// Verify reports whether this key signed data.
func (p PublicKey) Verify(data, signature []byte) bool {
	der, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(signature)))
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	return ecdsa.VerifyASN1(p.key, sum[:], der)
}

// Signer returns the fingerprint of the first key that made a signature of data, or "" if none did. There may be no signature.
func Signer(data, signature []byte, keys []PublicKey) string {
	for _, key := range keys {
		if key.Verify(data, signature) {
			return key.Fingerprint()
		}
	}
	return ""
}
