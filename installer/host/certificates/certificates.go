// Package certificates makes the host trust CAs.
package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/internal/atomicfile"
)

// Parse takes a text of certificates in PEM apart, each of which may sign others.
func Parse(text []byte) (certificates [][]byte, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("has a %s; give certificates of CAs, as PEM", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certificates)+1, err)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("certificate %d, of %s, is not of a CA; give the CA that signed it", len(certificates)+1, c.Subject)
		}
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	if len(certificates) == 0 || len(bytes.TrimSpace(text)) > 0 {
		return nil, errors.New("are no certificates of CAs, as PEM: text that begins with -----BEGIN CERTIFICATE-----")
	}
	return certificates, nil
}

// trustStore is where a distribution has certificates that an administrator adds, and what makes programs see them.
type trustStore struct {
	folder, extension string
	update            []string
}

// store is that of this host. Without a program to tell the folder is one that Go's programs read, such as containerd.
func store() trustStore {
	for _, s := range []trustStore{
		{"/etc/pki/ca-trust/source/anchors", ".pem", []string{"update-ca-trust", "extract"}},
		{"/usr/local/share/ca-certificates", ".crt", []string{"update-ca-certificates"}},
	} {
		if _, err := exec.LookPath(s.update[0]); err == nil {
			return s
		}
	}
	return trustStore{"/etc/ssl/certs", ".pem", nil}
}

// Trust makes the programs of this host trust certificates, each a PEM of its own, in place of those of an earlier call. What it
// changes lies in /etc and /usr/local.
func Trust(ctx context.Context, output io.Writer, certificates [][]byte) error {
	return store().trust(ctx, output, certificates)
}

func (s trustStore) trust(ctx context.Context, output io.Writer, certificates [][]byte) error {
	old, err := filepath.Glob(filepath.Join(s.folder, "sealift-*"+s.extension))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("trust CAs: %w", err)
		}
	}
	if err := atomicfile.MkdirAll(s.folder, 0o755); err != nil {
		return fmt.Errorf("trust CAs: %w", err)
	}
	for n, certificate := range certificates {
		if err := atomicfile.Write(filepath.Join(s.folder, "sealift-"+strconv.Itoa(n+1)+s.extension), certificate); err != nil {
			return fmt.Errorf("trust CAs: %w", err)
		}
	}
	if s.update == nil {
		return nil
	}
	if err := command.Run(ctx, output, s.update[0], s.update[1:]...); err != nil {
		return fmt.Errorf("trust CAs: %w", err)
	}
	return nil
}
