// Package signature signs the index of an archive and says whose signature it bears: ECDSA on P-256 over the sha256 of
// the bytes, in ASN.1 DER, in base64 on one line. That is what `cosign sign-blob` and `cosign verify-blob` use, and
// what `openssl dgst -sha256` uses once the base64 is taken off.
//
// The package knows keys and bytes. What the bytes mean, and which files lie where, is the caller's.
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

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// MaxSize bounds what is read as a signature or as a key, in bytes; either has some hundred.
const MaxSize = 16 << 10

// The types of PEM blocks that hold keys. The first two are cosign's, now and before.
const (
	pemEncrypted    = "ENCRYPTED SIGSTORE PRIVATE KEY"
	pemEncryptedOld = "ENCRYPTED COSIGN PRIVATE KEY"
	pemPKCS8        = "PRIVATE KEY"
	pemSEC1         = "EC PRIVATE KEY"
	pemPublic       = "PUBLIC KEY"
)

// ErrPassphrase says that a private key is encrypted with another passphrase.
var ErrPassphrase = errors.New("the passphrase is not that of the key")

// Key is a private key.
type Key struct{ key *ecdsa.PrivateKey }

// PublicKey is what others check a signature with.
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

// Marshal gives the private key in cosign's format: PKCS #8, encrypted with a key that scrypt makes of the passphrase.
// The passphrase may be empty, which protects nothing.
func (k *Key) Marshal(passphrase []byte) ([]byte, error) {
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

// IsEncrypted says whether reading a private key takes a passphrase.
func IsEncrypted(data []byte) bool {
	block := find(data, pemEncrypted, pemEncryptedOld)
	return block != nil
}

// ParseKey reads a private key: cosign's encrypted form, or what openssl writes, PKCS #8 or SEC 1 without encryption.
// A wrong passphrase gives ErrPassphrase.
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

// find gives the first PEM block of one of the types; openssl writes the parameters of a curve before its key.
func find(data []byte, types ...string) *pem.Block {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil
		}
		for _, t := range types {
			if block.Type == t {
				return block
			}
		}
	}
}

// Public is the public half.
func (k *Key) Public() (PublicKey, error) {
	der, err := x509.MarshalPKIXPublicKey(&k.key.PublicKey)
	if err != nil {
		return PublicKey{}, fmt.Errorf("encode the public key: %w", err)
	}
	return PublicKey{&k.key.PublicKey, der}, nil
}

// Sign gives the signature of data, with a newline at its end. It is deterministic (RFC 6979): the same key and data give
// the same signature, so that a signed archive can be made again byte for byte.
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

// Marshal gives the key in PEM.
func (p PublicKey) Marshal() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: p.der})
}

// Fingerprint names the key: SHA256: and the sha256 of its DER form, in hex.
func (p PublicKey) Fingerprint() string {
	sum := sha256.Sum256(p.der)
	return "SHA256:" + hex.EncodeToString(sum[:])
}

// Verify says whether signature is one of data with this key.
func (p PublicKey) Verify(data, signature []byte) bool {
	der, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(signature)))
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	return ecdsa.VerifyASN1(p.key, sum[:], der)
}
