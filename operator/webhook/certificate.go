package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// certificate is the certificate of an endpoint, and the clients that it accepts.
type certificate struct {
	sum    [sha256.Size]byte // of the files
	ca     []byte            // in PEM, for the API server to trust
	config *tls.Config
	leader *http.Client // trusts the CA
}

// source returns a function that reads the current certificate. It checks the Secret of our authority every keepTime: another
// replica, or a person, may have replaced or deleted it.
func (e *endpoint) source(ctx context.Context) (func() (*certificate, error), error) {
	if e.CertFile != "" {
		return e.fromFiles, nil
	}
	a, err := e.authority(ctx, nil)
	if err != nil {
		return nil, err
	}
	var shown *certificate
	read := time.Now()
	return func() (*certificate, error) {
		if time.Since(read) > keepTime {
			read = time.Now()
			live, err := e.authority(ctx, a)
			if e.logOnce(ctx, "the authority of webhooks cannot be read; the previous one is kept", err) && !bytes.Equal(live.pem, a.pem) {
				a, shown = live, nil
			}
		}
		if shown != nil && !a.expires(shown) {
			return shown, nil
		}
		cert, key, err := a.issue(e.names())
		if err == nil {
			shown, err = e.make(cert, key, a.pem)
		}
		return shown, err
	}, nil
}

// names are those by which the Service is called.
func (e *endpoint) names() []string {
	namespace := e.server.options.Namespace
	return []string{e.Service + "." + namespace + ".svc", e.Service + "." + namespace, e.Service}
}

func (e *endpoint) fromFiles() (*certificate, error) {
	texts := make([][]byte, 3)
	for i, file := range []string{e.CertFile, e.KeyFile, e.CAFile} {
		var err error
		if texts[i], err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("certificate of webhooks: %w", err)
		}
	}
	c, err := e.make(texts[0], texts[1], texts[2])
	if err != nil {
		return nil, fmt.Errorf("certificate of webhooks in %s, %s and %s: %w", e.CertFile, e.KeyFile, e.CAFile, err)
	}
	return c, nil
}

// make builds a certificate from PEM, and reads the CAs of clients.
func (e *endpoint) make(cert, key, ca []byte) (*certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA has no certificate in PEM")
	}
	ca = append(bytes.TrimSpace(ca), '\n')
	c := &certificate{ca: ca, leader: e.leaderClient(&pair, authority), config: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
	}}
	all := bytes.Join([][]byte{cert, key, ca}, []byte{0})
	for _, file := range e.ClientCAFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if c.config.ClientCAs == nil {
			c.config.ClientCAs, c.config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		}
		if !c.config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the CA of clients in %s has no certificate in PEM", file)
		}
		all = append(append(all, 0), text...)
	}
	if c.config.ClientCAs != nil && e.server.options.Leader != nil {
		c.config.ClientAuth, c.config.VerifyConnection = tls.RequireAnyClientCert, e.replicaOr(c.config.ClientCAs, authority)
	}
	c.sum = sha256.Sum256(all)
	return c, nil
}
