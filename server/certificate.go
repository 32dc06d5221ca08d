package server

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// certificate is that of two files, as they are when a client connects: whoever renews it replaces them, and restarts nothing.
type certificate struct {
	names [2]string // of the certificate with its chain, and of its key
	log   *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	files  [2]fs.FileInfo // as they were when they were loaded, or could not be
}

func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{names: [2]string{certFile, keyFile}, log: log}
	return c, c.load()
}

// get is what tls.Config.GetCertificate wants. Files that are not a certificate and its key, as while they are being replaced,
// leave the server with the one that it has.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		c.log.Error("the certificate that was there before is used on", "error", err)
	}
	return c.loaded, nil
}

// load reads the files if they are others than before.
func (c *certificate) load() error {
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
		c.log.Info("a new certificate is used", "file", c.names[0], "until", loaded.Leaf.NotAfter)
	}
	c.loaded = &loaded
	return nil
}
