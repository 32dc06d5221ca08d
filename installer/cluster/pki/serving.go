package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/privatekey"
	"github.com/sealift/sealift/internal/regularfile"
)

// ServingLabel marks Secrets of servers in the cluster whose certificates the cluster's CA signed. A rotation of the CA renews them.
const ServingLabel = "sealift.dev/serving-certificate"

// Server is a server in the cluster that needs a certificate.
type Server struct {
	Namespace, Secret string
	Names             []string // DNS names and addresses, the best-known first
}

// Certificate returns a Secret of type kubernetes.io/tls with a certificate of the cluster's CA, its key, and the CA as ca.crt. The
// certificate is valid as long as the CA. old is what the cluster has, or nil; its key and its certificate stay as long as they fit. The
// host has to be a control plane. rootfs is the folder with its files; empty means /.
func (s Server) Certificate(rootfs string, old *corev1.Secret, now time.Time) (*corev1.Secret, error) {
	h := host{files.Host{Rootfs: rootfs}}
	ca, trusted, chain, err := h.clusterCA()
	if err != nil {
		return nil, fmt.Errorf("a certificate for %s: %w", s.Names[0], err)
	}
	if !now.Before(ca.cert.NotAfter) {
		return nil, fmt.Errorf("a certificate for %s: the cluster's CA expired on %s", s.Names[0], ca.cert.NotAfter.Format(time.DateOnly))
	}
	if old != nil && s.fits(old, ca.cert) {
		kept := s.secret(old.Data[corev1.TLSCertKey], old.Data[corev1.TLSPrivateKeyKey], trusted)
		return kept, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	template, err := s.template()
	if err != nil {
		return nil, err
	}
	cert, err := ca.serve(template, key.Public(), chain)
	if err != nil {
		return nil, err
	}
	return s.secret(cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), trusted), nil
}

// secret is the object in the cluster.
func (s Server) secret(cert, key, trusted []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Secret, Labels: map[string]string{ServingLabel: "cluster-ca"}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, corev1.ServiceAccountRootCAKey: trusted},
	}
}

// template is a certificate for the names.
func (s Server) template() (*x509.Certificate, error) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: s.Names[0]}}
	for _, name := range s.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
			return nil, fmt.Errorf("a certificate for %s: %q is not a DNS name or an address", s.Names[0], name)
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	return template, nil
}

// fits reports whether the certificate in a Secret is one of this CA, with these names and with its key.
func (s Server) fits(old *corev1.Secret, ca *x509.Certificate) bool {
	pair, err := tls.X509KeyPair(old.Data[corev1.TLSCertKey], old.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	want, err := s.template()
	if err != nil || pair.Leaf.CheckSignatureFrom(ca) != nil || !pair.Leaf.NotAfter.Equal(ca.NotAfter) {
		return false
	}
	return slices.Equal(pair.Leaf.DNSNames, want.DNSNames) && slices.EqualFunc(pair.Leaf.IPAddresses, want.IPAddresses, net.IP.Equal)
}

// clusterCA reads the CA of the cluster: with its key, as what clients trust, and with what a server shows after its certificate while the
// CA is being rotated.
func (h host) clusterCA() (ca issuer, trusted, chain []byte, err error) {
	part := authority.Part{Name: authority.Cluster}
	if trusted, err = regularfile.ReadFile(h.Path(part.Trusted())); err != nil {
		return ca, nil, nil, err
	}
	block, _ := pem.Decode(trusted)
	if block == nil {
		return ca, nil, nil, fmt.Errorf("%s has no certificate", part.Trusted())
	}
	if ca.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return ca, nil, nil, fmt.Errorf("%s: %w", part.Trusted(), err)
	}
	text, err := regularfile.ReadFile(h.Path(part.Private()))
	if err == nil {
		ca.key, err = privatekey.Parse(text)
	}
	if err != nil {
		return ca, nil, nil, fmt.Errorf("the key of the cluster's CA: %w", err)
	}
	state, rotated, err := authority.Read(h.Rootfs)
	if err != nil || !rotated || state.Stage == authority.Trust {
		return ca, trusted, nil, err
	}
	if p, ok := state.Part(authority.Cluster); ok {
		chain = p.Chain(state.Stage)
	}
	return ca, trusted, chain, nil
}

// serve signs a certificate for a server, in PEM, followed by the chain. It ends with the CA, because nobody else renews it.
func (a issuer) serve(template *x509.Certificate, public crypto.PublicKey, chain []byte) ([]byte, error) {
	der, err := a.create(x509.Certificate{
		Subject: template.Subject, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: template.DNSNames, IPAddresses: template.IPAddresses,
	}, public)
	if err != nil {
		return nil, err
	}
	return slices.Concat(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der}), chain), nil
}

// Renewed is the data of a Secret that Certificate made, with a certificate of the new CA of a rotation for the same names and the same key.
// ok is false if there is nothing to change.
func Renewed(secret *corev1.Secret, p authority.Part, stage authority.Stage) (data map[string][]byte, ok bool, err error) {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, false, fmt.Errorf("the Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	_, renewed, err := p.Certificates()
	if err != nil {
		return nil, false, err
	}
	signer, err := privatekey.Parse([]byte(p.Key))
	if err != nil {
		return nil, false, err
	}
	public, isSigner := pair.PrivateKey.(crypto.Signer)
	if !isSigner {
		return nil, false, errors.New("the key of a certificate cannot sign")
	}
	cert := secret.Data[corev1.TLSCertKey]
	if pair.Leaf.CheckSignatureFrom(renewed) != nil {
		if cert, err = (issuer{renewed, signer}).serve(pair.Leaf, public.Public(), p.Chain(stage)); err != nil {
			return nil, false, err
		}
	}
	data = map[string][]byte{corev1.TLSCertKey: cert, corev1.ServiceAccountRootCAKey: p.Bundle(stage)}
	same := bytes.Equal(cert, secret.Data[corev1.TLSCertKey]) && bytes.Equal(data[corev1.ServiceAccountRootCAKey], secret.Data[corev1.ServiceAccountRootCAKey])
	return data, !same, nil
}
