package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/privatekey"
	"github.com/sealift/sealift/internal/regularfile"
)

// validity is how long a renewed certificate is valid: as long as kubeadm makes it.
const validity = 365 * 24 * time.Hour

// issuer is a CA with its key.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// renewal is a certificate that can be renewed, and the CA that signs it.
type renewal struct {
	Entry
	ca issuer
}

func filesOf(all []renewal) (names []string) {
	for _, r := range all {
		names = append(names, r.File)
	}
	return names
}

// renewals finds the CA of every certificate that kubeadm made. It changes nothing. Certificates of CAs outside the cluster's
// folder are not kubeadm's, and are left out.
func renewals(h host, entries []Entry, now time.Time) ([]renewal, error) {
	var all []renewal
	for _, e := range entries {
		if e.cert == nil || e.Kind == CA || strings.HasPrefix(e.File, kubeletFolder) {
			continue
		}
		for _, ca := range entries {
			if ca.Kind != CA || e.cert.CheckSignatureFrom(ca.cert) != nil {
				continue
			}
			signer, err := h.issuer(ca, now)
			if err != nil {
				return nil, fmt.Errorf("renew %s: %w", e.File, err)
			}
			all = append(all, renewal{e, signer})
			break
		}
	}
	if len(all) == 0 {
		return nil, errors.New("this host has no certificates that kubeadm made; run the command on a control plane")
	}
	return all, nil
}

// issuer reads the key of a CA.
func (h host) issuer(ca Entry, now time.Time) (issuer, error) {
	if ca.Ended(now) {
		return issuer{}, fmt.Errorf("its CA %s expired on %s, and sealift cannot renew a CA yet", ca.File, ca.End.Format(time.DateOnly))
	}
	if ca.Begin != nil { // with an end a year from this clock, the certificate would have ended before it began
		return issuer{}, fmt.Errorf("its CA %s %s", ca.File, ca.Why())
	}
	if ca.Problem != "" {
		return issuer{}, fmt.Errorf("its CA %s is damaged: %s", ca.File, ca.Problem)
	}
	file := keyOf(ca.File)
	text, err := regularfile.ReadFile(h.Path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return issuer{}, fmt.Errorf("the key of its CA, %s, is not on this host: renew the certificate where the key is: %w", file, err)
	}
	if err != nil {
		return issuer{}, err
	}
	key, err := privatekey.Parse(text)
	if err != nil {
		return issuer{}, fmt.Errorf("%s: %w", file, err)
	}
	return issuer{ca.cert, key}, nil
}

// lateness is how far the clocks of others may be behind this one.
const lateness = 5 * time.Minute

// sign makes a certificate like an old one, for the same key, that is valid for a year from now, or as long as the old one if the clock was
// set back since, but no longer than its CA. It begins with the old one: by its beginning, others know it from those of a node of that
// name that was removed before.
func (a issuer) sign(old *x509.Certificate, now time.Time) ([]byte, error) {
	end := now.Add(validity)
	if end.Before(old.NotAfter) {
		end = old.NotAfter
	}
	if a.cert.NotAfter.Before(end) {
		end = a.cert.NotAfter
	}
	begin := old.NotBefore
	if begin.After(now) {
		begin = now.Add(-lateness)
	}
	return a.create(x509.Certificate{
		RawSubject: old.RawSubject, NotBefore: begin, NotAfter: end, KeyUsage: old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage,
		DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, URIs: old.URIs, EmailAddresses: old.EmailAddresses,
	}, old.PublicKey)
}

// create makes a certificate with a serial number of its own. It begins with its CA, because clocks of others may be behind, unless it has
// to begin later.
func (a issuer) create(template x509.Certificate, public crypto.PublicKey) (der []byte, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	if template.BasicConstraintsValid = true; template.NotBefore.Before(a.cert.NotBefore) {
		template.NotBefore = a.cert.NotBefore
	}
	return x509.CreateCertificate(rand.Reader, &template, a.cert, public, a.key)
}

// issue renews certificates. It may be interrupted and run again.
func (h host) issue(all []renewal, now time.Time) error {
	for _, r := range all {
		der, err := r.ca.sign(r.cert, now)
		if err == nil {
			err = h.write(r.Entry, func(text []byte) []byte { return replaceFirst(text, der) })
		}
		if err != nil {
			return fmt.Errorf("renew %s: %w", r.File, err)
		}
	}
	return nil
}

// write changes the certificates of a file. The key stays, so a file is always complete: with the old certificate or the new one.
func (h host) write(e Entry, change func(text []byte) []byte) error {
	path, err := filepath.EvalSymlinks(h.Path(e.file))
	if err != nil {
		return err
	}
	if e.Kind != Kubeconfig || e.file != e.File {
		text, err := regularfile.ReadFile(path)
		if err != nil {
			return err
		}
		return replace(path, text, change(text))
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	changed := change(user.ClientCertificateData)
	if bytes.Equal(changed, user.ClientCertificateData) {
		return nil
	}
	user.ClientCertificateData = changed
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return files.Replace(path, text)
}

// replace writes a file unless it has that content.
func replace(path string, is, content []byte) error {
	if bytes.Equal(is, content) {
		return nil
	}
	return files.Replace(path, content)
}

// replaceFirst replaces the first certificate of a PEM, and keeps the rest, such as a key.
func replaceFirst(text, der []byte) []byte {
	var out bytes.Buffer
	done := false
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == blockCertificate && !done {
			block, done = &pem.Block{Type: block.Type, Bytes: der}, true
		}
		_ = pem.Encode(&out, block) // memory does not fail
	}
	return out.Bytes()
}

// replaceAll replaces all certificates of a PEM with a chain, and keeps the rest.
func replaceAll(text, chain []byte) []byte {
	out := bytes.NewBuffer(bytes.Clone(chain))
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != blockCertificate {
			_ = pem.Encode(out, block) // memory does not fail
		}
	}
	return out.Bytes()
}

// blockCertificate is the type of a certificate in PEM.
const blockCertificate = "CERTIFICATE"
