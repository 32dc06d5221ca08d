package share

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// pin is the sha256 of a CA's public key (SubjectPublicKeyInfo, RFC 7469 §2.4). pins are those of all CAs that a client trusts.
type (
	pin  []byte
	pins []pin
)

func parsePin(hash string) (pin, error) {
	digits, ok := strings.CutPrefix(hash, "sha256:")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("the CA's hash is %q, not sha256: and 64 hexadecimal digits", hash)
	}
	return sum, nil
}

// CAHash writes the hash of a CA as kubeadm does.
func CAHash(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// verify wants a chain that ends in a CA of the pins, and a certificate for the address.
func (p pins) verify(state tls.ConnectionState, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	found := false
	for _, c := range state.PeerCertificates[1:] {
		sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
		if slices.ContainsFunc(p, func(one pin) bool { return bytes.Equal(sum[:], one) }) {
			roots.AddCert(c)
			found = true
		}
	}
	if !found {
		return errors.New("its certificate is not of the CA with the given hash")
	}
	_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
	return err
}

// Authority is the cluster's CA, which signs the certificates of servers.
type Authority struct {
	Certificate *x509.Certificate
	key         crypto.Signer
	clients     []*x509.Certificate // the CAs of clients: this one, and another one while CAs are rotated
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
	clients, err := ReadCAs(filepath.Join(pki, "ca.crt"))
	return Authority{Certificate: pair.Leaf, key: key, clients: clients}, err
}

// How long a server's certificate is valid, and from when on it is replaced. It begins early for hosts whose clocks are late.
const (
	validity = 30 * 24 * time.Hour
	renewal  = 10 * 24 * time.Hour
	lateness = time.Hour
)

// TLS gives the configuration of a server at these addresses. Its key never leaves the memory of this process.
func (a Authority) TLS(addresses ...string) *tls.Config {
	var mu sync.Mutex
	var current *tls.Certificate
	clients := x509.NewCertPool()
	for _, ca := range a.clients {
		clients.AddCert(ca)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if current == nil || stale(current.Leaf, time.Now()) {
			made, err := a.issue(addresses)
			if err != nil {
				return nil, err
			}
			current = made
		}
		return current, nil
	}}
}

// stale says whether a certificate is to be replaced: it is about to end, or the clock was set back, so that it has yet to begin.
func stale(leaf *x509.Certificate, now time.Time) bool {
	return now.After(leaf.NotAfter.Add(-renewal)) || now.Before(leaf.NotBefore.Add(lateness/2))
}

func (a Authority) issue(addresses []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "sealift-node"}, NotBefore: now.Add(-lateness), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if address != "" {
			template.DNSNames = append(template.DNSNames, address)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.Certificate.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// memberOf is the name of the node whose kubelet has the verified certificate of a connection; "" for other clients. Kubernetes
// has the name behind system:node: in a certificate of the group system:nodes.
func memberOf(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	subject := state.PeerCertificates[0].Subject
	name, ok := strings.CutPrefix(subject.CommonName, "system:node:")
	if !ok || !slices.Contains(subject.Organization, "system:nodes") {
		return ""
	}
	return name
}

// ReadCA reads the certificate of a CA, the first of a PEM file.
func ReadCA(name string) (*x509.Certificate, error) {
	all, err := ReadCAs(name)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ReadCAs reads the certificates of a PEM file: more than one while CAs are rotated.
func ReadCAs(name string) (all []*x509.Certificate, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, ca)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: has no certificate", name)
	}
	return all, nil
}
