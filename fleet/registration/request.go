package registration

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/privatekey"
)

// Request has the checked fields of a request for a certificate.
type Request struct {
	// Signer is the requested signer, and Username the requester.
	Signer, Username string
	// Usages are those of Kubernetes, such as "client auth".
	Usages []string
	// PEM has the request itself.
	PEM []byte
}

// Verify returns why a request is refused: it is not from the agent of the cluster, or it asks for more than the identity.
func (r Request) Verify(cluster string, identity ocm.RegistrationInfo) error {
	if r.Signer != identity.SignerName {
		return fmt.Errorf("its signer is %q, want %q", r.Signer, identity.SignerName)
	}
	account := "system:serviceaccount:" + cluster + ":" + Account
	// names of add-ons' agents on other clusters begin like this, too, if a cluster is named "cluster"
	id, known := strings.CutPrefix(r.Username, prefix+cluster+":")
	if r.Username != account && r.Username != prefix+cluster && (!known || strings.Contains(id, ":")) {
		return fmt.Errorf("its requester is %q, which is not the agent of cluster %s", r.Username, cluster)
	}
	for _, usage := range r.Usages {
		if usage != "client auth" && usage != "digital signature" && usage != "key encipherment" {
			return fmt.Errorf("its usages have %q; an agent gets client auth only", usage)
		}
	}
	if !slices.Contains(r.Usages, "client auth") {
		return errors.New("its usages lack client auth")
	}
	request, err := parseRequest(r.PEM)
	if err != nil {
		return err
	}
	want := identity.Subject
	if got := request.Subject.CommonName; got != want.User {
		return fmt.Errorf("its common name is %q, want %q", got, want.User)
	}
	if got := request.Subject.Organization; !sameSet(got, want.Groups) {
		return fmt.Errorf("its organizations are %q, want %q", got, want.Groups)
	}
	if got := request.Subject.OrganizationalUnit; !sameSet(got, want.OrganizationUnit) {
		return fmt.Errorf("its organizational units are %q, want %q", got, want.OrganizationUnit)
	}
	if s := request.Subject; len(s.Country)+len(s.Province)+len(s.Locality)+len(s.StreetAddress)+len(s.PostalCode) > 0 || s.SerialNumber != "" {
		return errors.New("its subject has more than a common name, organizations and organizational units")
	}
	if len(request.IPAddresses)+len(request.EmailAddresses)+len(request.URIs) > 0 {
		return errors.New("it has alternative names that are not DNS names")
	}
	return nil
}

func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("it is not a PEM block of type CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return request, nil
}

// sameSet compares names without order. Everybody counts on neither side: each client is in that group.
func sameSet(a, b []string) bool {
	set := func(list []string) []string {
		list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == unboundGroup })
		slices.Sort(list)
		return slices.Compact(list)
	}
	return slices.Equal(set(a), set(b))
}

// Validity is how long a certificate is valid that the hub signs.
const Validity = 24 * time.Hour

// Authority signs the certificates of a custom signer.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ParseAuthority reads an authority from PEM: a certificate, and its key in PKCS#1, PKCS#8 or SEC 1.
func ParseAuthority(cert, key []byte, now time.Time) (*Authority, error) {
	block, _ := pem.Decode(cert)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("tls.crt has no certificate")
	}
	a := &Authority{}
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("tls.crt: %w", err)
	}
	if a.key, err = privatekey.Parse(key); err != nil {
		return nil, fmt.Errorf("tls.key: %w", err)
	}
	public, ok := a.key.Public().(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !a.cert.IsCA:
		return nil, errors.New("tls.crt is not a certificate authority")
	case !ok || !public.Equal(a.cert.PublicKey):
		return nil, errors.New("tls.key is not the key of tls.crt")
	case !now.Before(a.cert.NotAfter):
		return nil, fmt.Errorf("tls.crt expired at %s", a.cert.NotAfter.Format(time.RFC3339))
	}
	return a, nil
}

// Sign signs a request that was verified. The certificate is for clients only.
func (a *Authority) Sign(r Request, now time.Time, validity time.Duration) ([]byte, error) {
	request, err := parseRequest(r.PEM)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	end := now.Add(validity)
	if a.cert.NotAfter.Before(end) {
		end = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: request.Subject, DNSNames: request.DNSNames,
		NotBefore: now.Add(-5 * time.Minute), NotAfter: end, // clocks of clusters are apart
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, request.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
