// Package privatekey reads private keys of authorities. Keys that sign packages are package signature's.
package privatekey

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Parse reads the first private key of a PEM, in PKCS#1, PKCS#8 or SEC 1. Other blocks may precede it: openssl writes the parameters
// of a curve before its key.
func Parse(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("its block %q is damaged: %w", block.Type, err)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("its key, a %T, cannot sign; use one of RSA or ECDSA", key)
		}
		return signer, nil
	}
	return nil, errors.New("it has no private key in PKCS#1, PKCS#8 or SEC 1 that is not encrypted")
}
