package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/atomicfile"
)

// TestServePageIsFollowed lets the page's host be a server of this test, over TLS.
func TestServePageIsFollowed(t *testing.T) {
	dir := t.TempDir()
	packages := filepath.Join(dir, "packages")
	for _, name := range []string{"containerd/2.2.1", "kubernetes/1.36.3"} {
		addOn := filepath.Join(dir, "addons", name)
		if err := os.MkdirAll(addOn, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"Manifest", "install.sh"} {
			if err := atomicfile.Write(filepath.Join(addOn, file), nil); err != nil {
				t.Fatal(err)
			}
		}
		if code, _, errOut := command(t, "build", addOn, "--out", packages, "--cache", filepath.Join(dir, "cache")); code != app.ExitDone {
			t.Fatal(errOut)
		}
	}
	address := serveTLS(t, dir, packages, "sealift.example.com")
	rc := fmt.Sprintf("connect-to = \"sealift.example.com:443:%s\"\ncacert = %q\n", address, filepath.Join(dir, "tls.crt"))
	if err := atomicfile.Write(filepath.Join(dir, ".curlrc"), []byte(rc)); err != nil {
		t.Fatal(err)
	}
	follow(t, "../../docs/serve.md", "CURL_HOME="+dir)
}

// TestPackagesOfKurlAreServed imports them: with an index, in a bundle that sealift reads.
func TestPackagesOfKurlAreServed(t *testing.T) {
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	files := tar.NewWriter(gz)
	for name, text := range map[string]string{"Manifest": "", "install.sh": "x() { :; }\n"} {
		if err := files.WriteHeader(&tar.Header{Name: "addons/x/1/" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(files, text)
	}
	if err := errors.Join(files.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := atomicfile.Write(filepath.Join(dir, "x-1.tar.gz"), packed.Bytes()); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--store", dir)
	at := s.bundleURL(t, "apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nmetadata: {name: x}\nspec:\n  x: {version: '1'}\n")
	for _, url := range []string{at, "http://" + s.address + "/dist/x-1.tar.gz"} {
		if code, out, said := command(t, "inspect", url); code != app.ExitDone || !strings.Contains(out, "\nx 1\n") {
			t.Errorf("%s: %d\n%s%s", url, code, out, said)
		}
	}
}

// serveTLS runs 'sealift serve' before a folder until the test ends and returns its address.
func serveTLS(t *testing.T, dir, packages, name string) string {
	t.Helper()
	certificate(t, dir, name)
	return startServer(t, "--store", packages, "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key")).address
}

// runningServer is a separate 'sealift serve'.
type runningServer struct {
	*os.Process
	address string
	ended   chan struct{}
}

// startServer runs 'sealift serve' until it is stopped, or the test ends.
func startServer(t *testing.T, args ...string) *runningServer {
	t.Helper()
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	if err := atomicfile.Write(tool, []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sealift := filepath.Join(dir, "sealift")
	if err := os.Symlink(self, sealift); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), sealift, append([]string{"serve", "--listen", "127.0.0.1:0", "--sealift", tool, "--sealift-preflight", tool, "--cache", filepath.Join(dir, "cache")}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, ok := strings.Cut(line, " on ")
	address, _, _ := strings.Cut(rest, ";")
	if err != nil || !ok {
		t.Errorf("the server said %q: %v", line, err)
	}
	s := &runningServer{Process: cmd.Process, address: address, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server was told to end: %v\n%s", err, said.String())
		}
	}()
	t.Cleanup(func() {
		_ = s.Signal(os.Interrupt)
		<-s.ended
	})
	return s
}

// certificate writes one for a name, tls.crt, and its key, tls.key.
func certificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := atomicfile.Write(filepath.Join(dir, file), pem.EncodeToMemory(block)); err != nil {
			t.Fatal(err)
		}
	}
}
