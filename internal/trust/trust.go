// Package trust holds the CAs that a command trusts in addition to those of the system: of a company's proxy, or of a private
// server. They are a value. Code that opens connections gets it as an option.
package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// CAs are certificates of CAs. The zero value has those of the system only.
type CAs struct {
	file string
	text []byte
	pool *x509.CertPool
}

// Read reads CAs from a file in PEM, and adds them to those of the system.
func Read(file string) (CAs, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return CAs{}, err
	}
	if _, err := Parse(text); err != nil {
		return CAs{}, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return CAs{}, fmt.Errorf("the CAs of the system: %w", err)
	}
	pool.AppendCertsFromPEM(text)
	return CAs{file, text, pool}, nil
}

// File returns the name of their file, or "".
func (c CAs) File() string { return c.file }

// Text returns the added certificates, in PEM.
func (c CAs) Text() string { return string(c.text) }

// TLS returns the settings of a client that trusts them, or nil for those of the system.
func (c CAs) TLS() *tls.Config {
	if c.pool == nil {
		return nil
	}
	return &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12}
}

// Environment returns the variables by which a Go or OpenSSL program trusts them.
func (c CAs) Environment() []string {
	if c.file == "" {
		return nil
	}
	return []string{"SSL_CERT_FILE=" + c.file}
}

// Parse splits a text into its certificates, in PEM. Each must be of a CA.
func Parse(text []byte) (certificates [][]byte, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("has a %s; give CA certificates in PEM", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certificates)+1, err)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("certificate %d, of %s, is not a CA certificate; give the CA that signed it", len(certificates)+1, c.Subject)
		}
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	if len(certificates) == 0 || len(bytes.TrimSpace(text)) > 0 {
		return nil, errors.New("are not CA certificates in PEM, which begin with -----BEGIN CERTIFICATE-----")
	}
	return certificates, nil
}

// End returns when the first of some certificates in PEM ends. ok is false if there is none.
func End(text []byte) (end time.Time, ok bool) {
	all, err := Parse(text)
	if err != nil {
		return end, false
	}
	for _, one := range all {
		block, _ := pem.Decode(one)
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && (!ok || c.NotAfter.Before(end)) {
			end, ok = c.NotAfter, true
		}
	}
	return end, ok
}
