package cosign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of signatures
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// minRSA is the least size of an RSA key, in bits.
const minRSA = 2048

// Key is a public key that upstream signs with: ECDSA, RSA or Ed25519.
type Key struct {
	Name string // where the policy has it from: the name of a file, or ""
	der  []byte
	key  crypto.PublicKey
}

// parseKey reads a public key in PEM (PKIX), as cosign writes it.
func parseKey(name string, data []byte) (Key, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		return Key{}, errors.New("not a public key in PEM; cosign's is the file that ends in .pub")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("read the public key: %w", err)
	}
	switch k := parsed.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return Key{}, fmt.Errorf("the RSA key has %d bits, and less than %d is not safe", k.N.BitLen(), minRSA)
		}
	default:
		return Key{}, fmt.Errorf("the public key is a %T; ECDSA, RSA and Ed25519 can be verified", parsed)
	}
	return Key{Name: name, der: block.Bytes, key: parsed}, nil
}

// Fingerprint returns the key's name as that of a signer of bundles: "SHA256:" and the sha256 of its DER form in hex.
func (k Key) Fingerprint() string {
	return "SHA256:" + hex.EncodeToString(sum(crypto.SHA256, k.der))
}

// MarshalJSON writes the fingerprint.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(k.Fingerprint()) }

func (k Key) String() string {
	if k.Name == "" {
		return "key " + k.Fingerprint()
	}
	return fmt.Sprintf("key %s (%s)", k.Name, k.Fingerprint())
}

func sum(h crypto.Hash, data []byte) []byte {
	hash := h.New()
	hash.Write(data)
	return hash.Sum(nil)
}

// verify reports whether the key signed data. cosign hashes with SHA-256 whatever the curve is; other programs use the hash of its size.
func (k Key) verify(data, signature []byte) bool {
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, data, signature)
	case *rsa.PublicKey:
		digest := sum(crypto.SHA256, data)
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest, signature) == nil ||
			rsa.VerifyPSS(key, crypto.SHA256, digest, signature, nil) == nil
	case *ecdsa.PublicKey:
		for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
			if ecdsa.VerifyASN1(key, sum(h, data), signature) {
				return true
			}
		}
	}
	return false
}

// errNotByKey reports a signature that none of the keys of a rule made.
var errNotByKey = errors.New("it is not by one of the keys, or it was changed")

// envelope is the part of a sigstore bundle that a key signs. Its times and its log entries are for identities.
type envelope struct {
	DSSE *struct {
		Payload     []byte `json:"payload"` // base64
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			Sig string `json:"sig"` // base64
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// byKey returns the key of the rule that made a signature of the image with a digest.
func (r Rule) byKey(s Signature, digest string) (Key, error) {
	if s.Bundle != nil {
		return r.byKeyOfBundle(s.Bundle, digest)
	}
	value, err := s.Value()
	if err != nil {
		return Key{}, err
	}
	for _, k := range r.Keys {
		if k.verify(s.Payload, value) {
			return k, CheckPayload(s.Payload, digest)
		}
	}
	return Key{}, errNotByKey
}

func (r Rule) byKeyOfBundle(data []byte, digest string) (Key, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Key{}, fmt.Errorf("its bundle is not JSON: %w", err)
	}
	if e.DSSE == nil {
		return Key{}, errors.New("its bundle has no statement")
	}
	signed := dsse.PAE(e.DSSE.PayloadType, e.DSSE.Payload)
	for _, one := range e.DSSE.Signatures {
		value, err := base64.StdEncoding.DecodeString(one.Sig)
		if err != nil {
			continue
		}
		for _, k := range r.Keys {
			if !k.verify(signed, value) {
				continue
			}
			if e.DSSE.PayloadType != "application/vnd.in-toto+json" {
				return k, fmt.Errorf("its payload has the type %q", e.DSSE.PayloadType)
			}
			return k, r.checkStatement(e.DSSE.Payload, digest)
		}
	}
	return Key{}, errNotByKey
}
