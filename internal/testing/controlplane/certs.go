package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of one control plane.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// validity is far longer than any test and short enough that a leaked key is worth nothing.
const validity = 24 * time.Hour

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certTemplate(pkix.Name{CommonName: "sealift-testgrid"})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: encodeCert(der)}, nil
}

// issue signs a certificate that may serve loopback and may also identify a client.
func (a *authority) issue(subject pkix.Name) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := certTemplate(subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost", "kubernetes"} // as kubeadm names every API server
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(private)
	return encodeCert(der), key, err
}

func certTemplate(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
	}
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// writeCerts writes the files that kube-apiserver reads into dir, and returns an administrator's credentials.
func writeCerts(dir string) (ca, clientCert, clientKey []byte, err error) {
	a, err := newAuthority()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	serverCert, serverKey, err := a.issue(pkix.Name{CommonName: "kube-apiserver"})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("issue the server's certificate: %w", err)
	}
	clientCert, clientKey, err = a.issue(pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("issue the administrator's certificate: %w", err)
	}
	caKey, err := encodeKey(a.key)
	if err != nil {
		return nil, nil, nil, err
	}
	for name, data := range map[string][]byte{caFile: a.pem, caKeyFile: caKey, serverCertFile: serverCert, serverKeyFile: serverKey} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, nil, nil, err
		}
	}
	return a.pem, clientCert, clientKey, nil
}
