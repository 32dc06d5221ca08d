// Package certfile serves TLS with a certificate from files that a site renews. It makes no certificates.
package certfile

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// Certificate is a server's TLS certificate. It is read again when its files change, so that a renewal needs no restart.
type Certificate struct {
	names [2]string // files of the certificate chain and of its key
	log   *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	files  [2]fs.FileInfo // their state at the last attempt to load them
}

// Open reads the files of a certificate chain and of its key, in PEM.
func Open(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{names: [2]string{certFile, keyFile}, log: log}
	return c, c.load()
}

// Get implements tls.Config.GetCertificate. If the files do not match, as while they are being replaced, the server keeps
// the certificate that it has.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		c.log.Error("cannot load the new certificate; keeping the old one", "error", err)
	}
	return c.loaded, nil
}

// load reads the files if they have changed.
func (c *Certificate) load() error {
	var files [2]fs.FileInfo
	same := true
	for i, name := range c.names {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		had := c.files[i]
		same = same && had != nil && os.SameFile(had, info) && had.ModTime().Equal(info.ModTime()) && had.Size() == info.Size()
		files[i] = info
	}
	if same {
		return nil
	}
	c.files = files
	loaded, err := tls.LoadX509KeyPair(c.names[0], c.names[1])
	if err != nil {
		return fmt.Errorf("certificate %s and key %s: %w", c.names[0], c.names[1], err)
	}
	if c.loaded != nil {
		c.log.Info("loaded a new certificate", "file", c.names[0], "until", loaded.Leaf.NotAfter)
	}
	c.loaded = &loaded
	return nil
}
