package share

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"

	"github.com/sealift/sealift/installer/cluster/identity"
)

// pin is the sha256 of a CA's public key (SubjectPublicKeyInfo, RFC 7469 §2.4). pins are those of all CAs that a client trusts.
type (
	pin  []byte
	pins []pin
)

// verify requires a chain that ends in a CA of the pins, and the certificate of a control plane for the address. Each worker also
// has a certificate of that CA for its own address.
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
		return errors.New("its certificate is not from the CA with the given hash")
	}
	if _, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
		return err
	}
	if _, ok := identity.ControlPlane(state.PeerCertificates[0]); !ok {
		return ErrNoControlPlane
	}
	return nil
}
