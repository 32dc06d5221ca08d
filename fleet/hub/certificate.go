package hub

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/ensure"
)

// authoritySecret has the certificate authority that all hubs of a cluster share.
const authoritySecret = "sealift-fleet-webhook-ca"

const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	authorityRenewal  = 2 * 365 * 24 * time.Hour // a hub makes a new authority when less is left
	certValidity      = 90 * 24 * time.Hour
	certRenewal       = 30 * 24 * time.Hour
)

// certificates returns the authority, and what presents a certificate of it.
func certificates(ctx context.Context, cluster *kube.Cluster, o Options, names []string) (ca []byte, cert func(*tls.ClientHelloInfo) (*tls.Certificate, error), err error) {
	if o.Webhook.Cert != "" {
		if ca, err = os.ReadFile(o.Webhook.CA); err != nil {
			return nil, nil, fmt.Errorf("the certificate authority of the webhooks: %w", err)
		}
		if _, err := pool(ca); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", o.Webhook.CA, err)
		}
		// the files are read again for each connection, so that they may be renewed
		cert = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.Webhook.Cert, o.Webhook.Key)
			return &pair, err
		}
		_, err = cert(nil)
		return ca, cert, err
	}
	a, err := loadAuthority(ctx, cluster, o.Namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate authority of the webhooks: %w", err)
	}
	i := &issuer{authority: a, names: names}
	return a.pem, i.certificate, nil
}

// authority signs the certificates of the webhooks.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// loadAuthority reads the authority of the hub's namespace. The first hub makes it.
func loadAuthority(ctx context.Context, cluster *kube.Cluster, namespace string) (*authority, error) {
	client, err := corev1client.NewForConfigAndClient(cluster.Config())
	if err != nil {
		return nil, err
	}
	secrets := client.Secrets(namespace)
	for range 5 {
		found, err := secrets.Get(ctx, authoritySecret, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		exists := err == nil
		if exists {
			if a, err := parseAuthority(found.Data); err == nil && time.Until(a.cert.NotAfter) > authorityRenewal {
				return a, nil
			}
		}
		data, err := newAuthority()
		if err != nil {
			return nil, err
		}
		if exists {
			found.Data = data
			_, err = secrets.Update(ctx, found, metav1.UpdateOptions{})
		} else if err = ensure.Namespace(ctx, client, namespace); err == nil || apierrors.IsForbidden(err) {
			_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authoritySecret}, Type: corev1.SecretTypeTLS, Data: data}, metav1.CreateOptions{})
		}
		switch {
		case err == nil:
			return parseAuthority(data)
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err): // otherwise another hub was faster
			return nil, err
		}
	}
	return nil, fmt.Errorf("other hubs keep changing the Secret %s/%s", namespace, authoritySecret)
}

func newAuthority() (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certTemplate("sealift-fleet-webhooks", authorityValidity)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}, err
}

func parseAuthority(data map[string][]byte) (*authority, error) {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not an ECDSA key")
	}
	return &authority{cert: pair.Leaf, key: key, pem: data[corev1.TLSCertKey]}, nil
}

func certTemplate(name string, validity time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
	}, err
}

// issuer presents a certificate of the authority and renews it in time.
type issuer struct {
	authority *authority
	names     []string

	mu   sync.Mutex
	cert *tls.Certificate
}

func (i *issuer) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cert != nil && time.Until(i.cert.Leaf.NotAfter) > certRenewal {
		return i.cert, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certTemplate("sealift-fleet-hub", certValidity)
	if err != nil {
		return nil, err
	}
	template.NotBefore = i.authority.cert.NotBefore // it stays valid when a clock that was ahead is set back
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range i.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.authority.cert, &key.PublicKey, i.authority.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	i.cert = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	return i.cert, nil
}
