package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Purpose keeps a signature for one thing from being used for another.
type Purpose string

// The purposes.
const (
	ForIntent   Purpose = "sealift intent v1"
	ForSnapshot Purpose = "sealift snapshot v1"
	ForPermit   Purpose = "sealift permit v1"
)

// Signature is a control plane's signature of a text: ECDSA P-256 over sha256, with the certificate of the signer.
type Signature struct {
	Certificate []byte `json:"certificate"` // DER
	Value       []byte `json:"value"`       // ASN.1
}

// ErrUnsigned means that no control plane of the cluster signed a text.
var ErrUnsigned = errors.New("no control plane of this cluster signed it")

// digest is the signed digest: of the purpose, a zero byte, and the text.
func digest(purpose Purpose, text []byte) []byte {
	sum := sha256.New()
	sum.Write([]byte(purpose))
	sum.Write([]byte{0})
	sum.Write(text)
	return sum.Sum(nil)
}

// Signer signs in the name of one control plane, each time with the same certificate.
type Signer struct{ certificate *tls.Certificate }

// Signer issues the certificate of a signer.
func (a Authority) Signer(node string) (Signer, error) {
	made, err := a.Issue(node)
	return Signer{made}, err
}

// Sign signs a text.
func (s Signer) Sign(purpose Purpose, text []byte) (Signature, error) {
	leaf := s.certificate.Leaf
	value, err := s.certificate.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest(purpose, text), crypto.SHA256)
	if err != nil {
		return Signature{}, fmt.Errorf("sign as %s: %w", leaf.Subject.CommonName, err)
	}
	return Signature{Certificate: leaf.Raw, Value: value}, nil
}

// Sign signs a text in the name of a control plane.
func (a Authority) Sign(node string, purpose Purpose, text []byte) (Signature, error) {
	signer, err := a.Signer(node)
	if err != nil {
		return Signature{}, err
	}
	return signer.Sign(purpose, text)
}

// Verify returns the control plane that signed a text at a time, trusting these CAs. Otherwise the error is ErrUnsigned.
func (s Signature) Verify(trusted []*x509.Certificate, purpose Purpose, text []byte, at time.Time) (node string, err error) {
	if len(s.Certificate) == 0 || len(s.Value) == 0 {
		return "", ErrUnsigned
	}
	leaf, err := x509.ParseCertificate(s.Certificate)
	if err != nil {
		return "", fmt.Errorf("%w: its certificate: %w", ErrUnsigned, err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: Pool(trusted), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	node, ok := ControlPlane(leaf)
	if !ok {
		return "", fmt.Errorf("%w: %q is not a control plane", ErrUnsigned, leaf.Subject.CommonName)
	}
	public, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(public, digest(purpose, text), s.Value) {
		return "", fmt.Errorf("%w: the signature of %s is of another text", ErrUnsigned, node)
	}
	return node, nil
}

// Encode writes a signature as Parse reads it.
func (s Signature) Encode() []byte {
	text, _ := json.Marshal(s) // a struct of bytes: cannot fail
	return text
}

// Parse reads a signature.
func Parse(text []byte) (s Signature, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	return s, nil
}
