package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/privatekey"
	"github.com/sealift/sealift/internal/regularfile"
)

// idLayout is the format of a rotation's ID, and nameLayout that of the time in the name of a rotated CA.
const (
	idLayout   = "20060102T150405.000Z"
	nameLayout = "20060102T150405"
)

// How long a new CA is valid: as long as kubeadm makes it. It begins early for hosts whose clocks are late.
const (
	validity = 10 * 365 * 24 * time.Hour
	lateness = 24 * time.Hour
)

// blockCertificate is the type of a certificate in PEM.
const blockCertificate = "CERTIFICATE"

// New makes new CAs, and a new service-account key, for the named parts of a control plane. It writes nothing. rootfs is the folder
// with the host's files; empty means /.
func New(rootfs string, names []string, now time.Time) (State, error) {
	s := State{ID: now.UTC().Format(idLayout), Stage: Trust}
	for _, name := range names {
		p := Part{Name: name}
		err := p.make(files.Host{Rootfs: rootfs}.Path("/"), s.ID, now)
		if err != nil {
			return State{}, fmt.Errorf("rotate the %s part: %w", name, err)
		}
		s.Parts = append(s.Parts, p)
	}
	return s, nil
}

func (p *Part) make(root, id string, now time.Time) error {
	trusted, err := regularfile.ReadFile(filepath.Join(root, p.Trusted()))
	if err != nil {
		return err
	}
	private, err := regularfile.ReadFile(filepath.Join(root, p.Private()))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not on this host: a CA whose key is kept elsewhere is rotated there: %w", p.Private(), err)
	}
	if err != nil {
		return err
	}
	signer, err := privatekey.Parse(private)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Private(), err)
	}
	key, err := sameKind(signer)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Private(), err)
	}
	if p.Key, err = encodeKey(key); err != nil {
		return err
	}
	if !p.IsCA() {
		return p.makeKeyPair(trusted, key)
	}
	old, err := only(trusted)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Trusted(), err)
	}
	return p.makeCA(old, signer, key, id, now)
}

func (p *Part) makeKeyPair(trusted []byte, key crypto.Signer) error {
	block, rest := pem.Decode(trusted)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return fmt.Errorf("%s has to have one public key", p.Trusted())
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	p.Old, p.New = string(pem.EncodeToMemory(block)), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return nil
}

func (p *Part) makeCA(old *x509.Certificate, signer, key crypto.Signer, id string, now time.Time) error {
	switch {
	case !old.IsCA:
		return fmt.Errorf("%s is not the certificate of a CA", p.Trusted())
	case old.MaxPathLenZero:
		return fmt.Errorf("%s forbids a CA below it (its path length is 0), which a rotation needs", p.Trusted())
	case now.Before(old.NotBefore):
		return fmt.Errorf("%s begins on %s, and the clock of this host says %s; set the clock, for instance with timedatectl set-time",
			p.Trusted(), old.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case !now.Before(old.NotAfter):
		return fmt.Errorf("%s expired on %s, so no node accepts certificates of it; restore a snapshot or install the cluster again", p.Trusted(), old.NotAfter.Format(time.DateOnly))
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(old.PublicKey) {
		return fmt.Errorf("%s does not fit %s", p.Private(), p.Trusted())
	}
	template := &x509.Certificate{
		Subject: subject(old, id), NotBefore: now.Add(-lateness), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	root, err := certificate(template, template, key.Public(), key)
	if err != nil {
		return err
	}
	cross := *template
	if old.NotAfter.Before(cross.NotAfter) {
		cross.NotAfter = old.NotAfter
	}
	below, err := certificate(&cross, old, key.Public(), signer)
	p.Old, p.New, p.Cross = encodeCertificate(old.Raw), root, below
	return err
}

// subject names the new CA after the old one and the time. kubeadm gives all CAs of a kind the same name.
func subject(old *x509.Certificate, id string) pkix.Name {
	name, _, _ := strings.Cut(old.Subject.CommonName, "@")
	at, _, _ := strings.Cut(id, ".")
	return pkix.Name{CommonName: name + "@" + at, Organization: old.Subject.Organization}
}

// Began is when a CA began to exist. One that a rotation made is valid since before that, and has the time in its name.
func Began(ca *x509.Certificate) time.Time {
	if _, at, ok := strings.Cut(ca.Subject.CommonName, "@"); ok {
		if made, err := time.Parse(nameLayout, at); err == nil {
			return made
		}
	}
	return ca.NotBefore
}

func certificate(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (string, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", err
	}
	made := *template
	made.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, &made, parent, public, signer)
	return encodeCertificate(der), err
}

func encodeCertificate(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der}))
}

// sameKind generates a key of the same type and size as another.
func sameKind(as crypto.Signer) (crypto.Signer, error) {
	switch k := as.(type) {
	case *rsa.PrivateKey:
		return rsa.GenerateKey(rand.Reader, max(k.N.BitLen(), 2048))
	case *ecdsa.PrivateKey:
		return ecdsa.GenerateKey(k.Curve, rand.Reader)
	}
	return nil, fmt.Errorf("it is a key of type %T, not RSA or ECDSA", as)
}

// encodeKey writes a key in the form in which kubeadm does.
func encodeKey(key crypto.Signer) (string, error) {
	if k, ok := key.(*rsa.PrivateKey); ok {
		return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})), nil
	}
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return "", fmt.Errorf("unsupported key type %T", key)
	}
	der, err := x509.MarshalECPrivateKey(k)
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), err
}

// only reads the one certificate of a PEM.
func only(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != blockCertificate {
		return nil, errors.New("it has no certificate")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("it has more than one certificate, but a rotation must know which one signs; keep only that one in the file")
	}
	return x509.ParseCertificate(block.Bytes)
}

// Certificates reads the old CA and the new one.
func (p Part) Certificates() (old, renewed *x509.Certificate, err error) {
	if old, err = only([]byte(p.Old)); err == nil {
		renewed, err = only([]byte(p.New))
	}
	return old, renewed, err
}

// check refuses an incomplete part, or one whose certificates do not match.
func (p Part) check() error {
	if p.Key != "" {
		if _, err := privatekey.Parse([]byte(p.Key)); err != nil {
			return err
		}
	}
	if !p.IsCA() {
		for _, text := range []string{p.Old, p.New} {
			if block, _ := pem.Decode([]byte(text)); block == nil {
				return errors.New("it has no public key")
			}
		}
		return nil
	}
	old, renewed, err := p.Certificates()
	if err != nil {
		return err
	}
	cross, err := only([]byte(p.Cross))
	if err != nil {
		return err
	}
	if !bytes.Equal(cross.RawSubjectPublicKeyInfo, renewed.RawSubjectPublicKeyInfo) {
		return errors.New("its intermediate has another key than the new CA")
	}
	return cross.CheckSignatureFrom(old)
}
