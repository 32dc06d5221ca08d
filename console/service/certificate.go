package service

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/certfile"
)

// pki is where kubeadm keeps the cluster's CA.
const pki = "/etc/kubernetes/pki"

// certificateName is the subject of the certificate that the cluster's CA signs. It is not a name of a node.
const certificateName = "sealift-console"

// checkTime is how often the names of the host and the CA are looked at.
const checkTime = time.Minute

// certificate returns what tls.Config.GetCertificate needs: the site's certificate, or one of the cluster's CA.
func (s Settings) certificate(pki string, names func() ([]string, error), log *slog.Logger) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if s.Certificate != "" {
		c, err := certfile.Open(s.Certificate, s.PrivateKey, log)
		if err != nil {
			return nil, err
		}
		return c.Get, nil
	}
	i := &issued{pki: pki, names: names, log: log}
	if _, err := i.get(nil); err != nil {
		return nil, err
	}
	return i.get, nil
}

// issued is a certificate that the cluster's CA signs for the names of the host. Its key is only in memory.
type issued struct {
	pki   string
	names func() ([]string, error)
	log   *slog.Logger

	mu      sync.Mutex
	checked time.Time
	current *tls.Certificate
	ca      []byte // DER of the CA that signed it
	of      []string
}

// get returns the certificate, and replaces it when it is near its end, when the CA was rotated, and when the host got another address. If
// that fails, the console keeps the certificate that it has.
func (i *issued) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if i.current != nil && now.Sub(i.checked) < checkTime && !now.Before(i.checked) {
		return i.current, nil
	}
	i.checked = now
	err := i.renew(now)
	if i.current == nil {
		return nil, err
	}
	if err != nil {
		i.log.Error("cannot issue a new certificate; keeping the old one", "error", err)
	}
	return i.current, nil
}

func (i *issued) renew(now time.Time) error {
	authority, err := identity.ReadAuthority(i.pki)
	if err != nil {
		return errors.Join(err, errors.New("without the cluster's CA, name a certificate: sealift-console on --certificate FILE --private-key FILE"))
	}
	names, err := i.names()
	if err != nil {
		return err
	}
	if i.current != nil && slices.Equal(i.of, names) && string(i.ca) == string(authority.Certificate.Raw) {
		lasts := i.current.Leaf.NotAfter.Sub(i.current.Leaf.NotBefore)
		if now.After(i.current.Leaf.NotBefore) && i.current.Leaf.NotAfter.Sub(now) > lasts/3 {
			return nil
		}
	}
	made, err := authority.IssueServer(certificateName, names...)
	if err != nil {
		return err
	}
	i.current, i.of, i.ca = made, names, authority.Certificate.Raw
	return nil
}

// Fingerprint returns the SHA-256 of the certificate by which a person recognizes the console in a browser: that of the cluster's CA, or
// the site's own.
func (s Settings) Fingerprint() (string, error) {
	var der []byte
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.PrivateKey)
		if err != nil {
			return "", err
		}
		der = pair.Certificate[0]
	} else {
		authority, err := identity.ReadAuthority(pki)
		if err != nil {
			return "", err
		}
		der = authority.Certificate.Raw
	}
	sum := sha256.Sum256(der)
	var parts []string
	for _, b := range sum {
		parts = append(parts, strings.ToUpper(hex.EncodeToString([]byte{b})))
	}
	return strings.Join(parts, ":"), nil
}
