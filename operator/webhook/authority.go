package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube"
)

const (
	// authorityLife and certificateLife are how long an authority and its certificates are valid. A certificate is replaced
	// when a third of its life is left, an authority at a start in its last year.
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 90 * 24 * time.Hour
	lastYear        = 365 * 24 * time.Hour
	// clockSkew is how far the clock of another machine may be behind ours.
	clockSkew = time.Hour

	authoritySuffix            = "-authority"
	authorityCert, authorityID = "ca.crt", "ca.key" // the keys of the Secret
)

// authority is a CA of our own. All replicas share it through a Secret.
type authority struct {
	pem, key []byte
	pair     tls.Certificate
}

// lasts reports whether there is an authority, with more than its last year left.
func (a *authority) lasts() bool { return a != nil && time.Until(a.pair.Leaf.NotAfter) > lastYear }

// authority reads the authority of an endpoint from its Secret. If there is none, it writes the known one, or creates one.
func (e *endpoint) authority(ctx context.Context, known *authority) (*authority, error) {
	ref := kube.Ref{Version: "v1", Kind: "Secret", Namespace: e.server.options.Namespace, Name: e.Service + authoritySuffix}
	a, err := e.readOrMake(ctx, ref, known)
	if err != nil {
		return nil, fmt.Errorf("the authority of webhooks in %s: %w; or give a certificate in files", ref, err)
	}
	return a, nil
}

func (e *endpoint) readOrMake(ctx context.Context, ref kube.Ref, known *authority) (*authority, error) {
	secrets, err := e.server.options.Cluster.Objects(ctx, ref)
	if err != nil {
		return nil, err
	}
	for {
		live, err := secrets.Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil {
			var a *authority
			if a, err = readAuthority(live); err == nil && a.lasts() {
				return a, nil
			}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		fresh := known
		if !fresh.lasts() {
			if fresh, err = newAuthority(e.Service); err != nil {
				return nil, err
			}
		}
		if live == nil || live.GetName() == "" {
			live = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
			live.SetName(ref.Name)
			live.Object["data"] = fresh.data()
			_, err = secrets.Create(ctx, live, metav1.CreateOptions{})
		} else {
			live.Object["data"] = fresh.data()
			_, err = secrets.Update(ctx, live, metav1.UpdateOptions{})
		}
		if err == nil {
			return fresh, nil
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return nil, err
		} // another replica was faster
	}
}

func readAuthority(secret *unstructured.Unstructured) (*authority, error) {
	var texts [2][]byte
	for i, key := range []string{authorityCert, authorityID} {
		encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
		text, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(text) == 0 {
			return nil, fmt.Errorf("it has no key %s; delete the Secret to have it recreated", key)
		}
		texts[i] = text
	}
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("%w; delete the Secret to have it recreated", err)
	}
	return &authority{texts[0], texts[1], pair}, nil
}

func newAuthority(name string) (*authority, error) {
	template := certificateOf(name+" authority", authorityLife)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	cert, key, err := sign(template, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &authority{cert, key, pair}, err
}

// data is the data of the authority's Secret.
func (a *authority) data() map[string]any {
	return map[string]any{
		authorityCert: base64.StdEncoding.EncodeToString(a.pem), authorityID: base64.StdEncoding.EncodeToString(a.key),
	}
}

// issue makes a certificate for a server with these names, as PEM.
func (a *authority) issue(names []string) (cert, key []byte, err error) {
	template := certificateOf(names[0], certificateLife)
	template.NotBefore = a.pair.Leaf.NotBefore // it stays valid when a clock that was ahead is set back
	template.DNSNames = names
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return sign(template, &a.pair)
}

// expires reports whether a certificate is in the last third of its life.
func (*authority) expires(c *certificate) bool {
	return time.Until(c.config.Certificates[0].Leaf.NotAfter) < certificateLife/3
}

func certificateOf(name string, life time.Duration) *x509.Certificate {
	if len(name) > 64 { // the longest common name; a server is known by its other names
		name = name[:64]
	}
	now := time.Now()
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life)}
}

// sign creates a key and a certificate for it, signed by a CA or, if that is nil, by itself.
func sign(template *x509.Certificate, by *tls.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	parent, signer := template, any(private)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, certErr := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	secret, keyErr := x509.MarshalPKCS8PrivateKey(private)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}
