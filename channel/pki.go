package channel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// caLifetime is the lifetime of the CAs that kOps issues.
const caLifetime = 10 * 365 * 24 * time.Hour

func caName(addon string) string { return addon + "-ca" }

// lacksKeys reports whether the CA of an add-on, or the Issuer that hands it to cert-manager, is missing (K-28).
func (c *Cluster) lacksKeys(ctx context.Context, addon string) (bool, error) {
	secret, err := c.exists(ctx, named(secrets, caName(addon)))
	if err != nil {
		return false, fmt.Errorf("look for the CA of add-on %s: %w", addon, err)
	}
	issuer, err := c.exists(ctx, named(issuers, addon))
	if err != nil {
		return false, fmt.Errorf("look for the Issuer of add-on %s: %w", addon, err)
	}
	return !secret || !issuer, nil
}

// issueKeys creates both, and keeps existing ones.
func (c *Cluster) issueKeys(ctx context.Context, addon string) error {
	cert, key, err := newCA(addon)
	if err != nil {
		return fmt.Errorf("make a CA for add-on %s: %w", addon, err)
	}
	err = c.create(ctx, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": map[string]any{"name": caName(addon), "namespace": DefaultNamespace},
		"data": map[string]any{
			"tls.crt": base64.StdEncoding.EncodeToString(cert),
			"tls.key": base64.StdEncoding.EncodeToString(key),
		},
	})
	if err != nil {
		return err
	}
	err = c.create(ctx, map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
		"metadata": map[string]any{"name": addon, "namespace": DefaultNamespace},
		"spec":     map[string]any{"ca": map[string]any{"secretName": caName(addon)}},
	})
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w: %w", errNoIssuers, err)
	}
	return err
}

// errNoIssuers means that the cluster has no Issuers, or not yet.
var errNoIssuers = errors.New("needsPKI needs cert-manager in the cluster")

// newCA makes a self-signed CA of a common name, in PEM.
func newCA(name string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLifetime), // clocks of nodes differ
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}
