package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Authority is the cluster's CA with its private key, as on control planes.
type Authority struct {
	Certificate *x509.Certificate
	// Trusted are the CAs that nodes may have: this one, and another one while CAs are rotated.
	Trusted []*x509.Certificate

	key crypto.Signer
}

// ReadAuthority reads ca.crt and ca.key from the folder in which kubeadm keeps them.
func ReadAuthority(pki string) (Authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		return Authority{}, fmt.Errorf("the cluster's CA: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return Authority{}, errors.New("the cluster's CA has a key that cannot sign")
	}
	trusted, err := ReadCAs(filepath.Join(pki, "ca.crt"))
	return Authority{Certificate: pair.Leaf, Trusted: trusted, key: key}, err
}

// How long a control plane's certificate is valid, and how long before its end it is replaced. It begins early for hosts whose clocks
// are late.
const (
	validity = 30 * 24 * time.Hour
	renewal  = 10 * 24 * time.Hour
	lateness = time.Hour
)

// Server returns the configuration of a TLS server of the control plane called node, at these addresses. Clients may show a
// certificate of the cluster; see Client.
func (a Authority) Server(node string, addresses ...string) *tls.Config {
	current := a.source(node, addresses...)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: Pool(a.Trusted),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current() },
	}
}

// Client returns the certificate that the control plane called node presents to servers. It may be called for each connection.
func (a Authority) Client(node string) func() (*tls.Certificate, error) { return a.source(node) }

// source returns a function that issues a certificate, and returns the same one until it is stale.
func (a Authority) source(node string, addresses ...string) func() (*tls.Certificate, error) {
	var mu sync.Mutex
	var current *tls.Certificate
	return func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if current == nil || stale(current.Leaf, time.Now()) {
			made, err := a.Issue(node, addresses...)
			if err != nil {
				return nil, err
			}
			current = made
		}
		return current, nil
	}
}

// stale reports whether a certificate has to be replaced: it ends soon, or the clock was set back to before its beginning.
func stale(leaf *x509.Certificate, now time.Time) bool {
	return now.After(leaf.NotAfter.Add(-renewal)) || now.Before(leaf.NotBefore.Add(lateness/2))
}

// Issue signs a certificate with which the control plane called node proves itself, as a server at these addresses and as a client.
func (a Authority) Issue(node string, addresses ...string) (*tls.Certificate, error) {
	made, err := a.sign(&x509.Certificate{
		Subject:            pkix.Name{CommonName: controlPlaneUser + node},
		ExtKeyUsage:        []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		UnknownExtKeyUsage: []asn1.ObjectIdentifier{controlPlaneUsage},
	}, addresses)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of control plane %s: %w", node, err)
	}
	return made, nil
}

// IssueServer signs a certificate for a service with this name at these addresses. It proves no control plane, and no client.
func (a Authority) IssueServer(name string, addresses ...string) (*tls.Certificate, error) {
	made, err := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, addresses)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return made, nil
}

// sign completes a template for these addresses, and signs it for a new key.
func (a Authority) sign(template *x509.Certificate, addresses []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter, template.KeyUsage = now.Add(-lateness), now.Add(validity), x509.KeyUsageDigitalSignature
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if address != "" {
			template.DNSNames = append(template.DNSNames, address)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.Certificate.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// Pool returns certificates as package tls takes them.
func Pool(all []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, one := range all {
		p.AddCert(one)
	}
	return p
}

// CAHash writes the hash of a CA as kubeadm does.
func CAHash(ca *x509.Certificate) string {
	return "sha256:" + sha256hex.Of(ca.RawSubjectPublicKeyInfo)
}

// ParseCAHash reads a hash that CAHash wrote: 32 bytes.
func ParseCAHash(hash string) ([]byte, error) {
	digits, ok := strings.CutPrefix(hash, "sha256:")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("the CA's hash is %q, not sha256: and 64 hexadecimal digits", hash)
	}
	return sum, nil
}

// ReadCA reads the certificate of a CA, the first of a PEM file.
func ReadCA(name string) (*x509.Certificate, error) {
	all, err := ReadCAs(name)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ReadCAs reads the certificates of a PEM file: more than one while CAs are rotated. It takes a certificate that is not one of a CA, too.
func ReadCAs(name string) ([]*x509.Certificate, error) {
	text, err := regularfile.ReadFile(name)
	if err != nil {
		return nil, err
	}
	all, err := ParseCAs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// ParseCAs reads the certificates of a text in PEM: at least one.
func ParseCAs(text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, ca)
	}
	if len(all) == 0 {
		return nil, errors.New("has no certificate")
	}
	return all, nil
}
