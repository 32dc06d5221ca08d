package share

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/identity"
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

// verify requires a chain that ends in a CA of the pins, and the certificate of a control plane for the address. Each worker has a
// certificate of that CA for its own address, too.
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
	if _, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
		return err
	}
	if _, ok := identity.ControlPlane(state.PeerCertificates[0]); !ok {
		return ErrNoControlPlane
	}
	return nil
}
