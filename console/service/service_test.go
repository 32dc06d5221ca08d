package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/console/background"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/testing/short"
)

// authority makes a folder with a CA, as kubeadm does, and a pool with it.
func authority(t *testing.T) (dir string, pool *x509.CertPool) {
	t.Helper()
	dir = t.TempDir()
	certificate, key, err := newCA()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.crt": certificate, "ca.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return dir, pool
}

// serve serves a console on a loopback address. Its sealift prints a status.
func serve(t *testing.T) (address string, pool *x509.CertPool) {
	t.Helper()
	pki, pool := authority(t)
	program := filepath.Join(t.TempDir(), "sealift")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho '{}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		s := Server{Home: Home{Root: t.TempDir(), LogDir: t.TempDir()}, Program: program, PKI: pki, Log: slog.New(slog.DiscardHandler)}
		ended <- s.Serve(ctx, l)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the console ended with %v", err)
		}
	})
	return l.Addr().String(), pool
}

func client(t *testing.T, pool *x509.CertPool) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestServesWithCertificateOfTheCluster(t *testing.T) {
	address, pool := serve(t)
	resp, err := client(t, pool).Get("https://" + address + "/login")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "Log in") {
		t.Errorf("got %d, %s, %v", resp.StatusCode, text, err)
	}
	leaf := resp.TLS.PeerCertificates[0]
	if _, isMember := identity.ControlPlane(leaf); isMember || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) || leaf.Subject.CommonName != certificateName {
		t.Errorf("the certificate of the console is for %s, with usages %v; it proves a control plane: %t", leaf.Subject, leaf.ExtKeyUsage, isMember)
	}
	if _, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("the console speaks TLS 1.1")
	}
}

// TestSlowClientsAreBounded has 500 connections that send a request byte by byte, or nothing. People still get their page.
func TestSlowClientsAreBounded(t *testing.T) {
	address, pool := serve(t)
	var open []net.Conn
	for n := range 500 {
		d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n%50))}}
		c, err := d.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
		if n%2 == 0 {
			if _, err := c.Write([]byte{0x16, 3, 1}); err != nil && !errors.Is(err, net.ErrClosed) {
				continue // it was refused
			}
		}
	}
	began := time.Now()
	resp, err := client(t, pool).Get("https://" + address + "/login")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Logf("a person got the page in %s", time.Since(began).Round(time.Millisecond))
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a person got %d", resp.StatusCode)
	}
	held := 0
	for _, c := range open {
		if err := c.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err != nil {
			continue
		}
		var b [1]byte
		if _, err := c.Read(b[:]); errors.Is(err, os.ErrDeadlineExceeded) {
			held++
		}
	}
	if held > maxAll {
		t.Errorf("%d of 500 slow clients are connected, more than %d", held, maxAll)
	}
}

// TestConsoleEndsWhenItsProgramIsReplaced replaces the file as an upgrade does.
func TestConsoleEndsWhenItsProgramIsReplaced(t *testing.T) {
	pki, _ := authority(t)
	self := filepath.Join(t.TempDir(), "sealift-console")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(name, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(self)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		s := Server{Home: Home{Root: t.TempDir(), LogDir: t.TempDir()}, Program: "/bin/false", PKI: pki, Log: slog.New(slog.DiscardHandler), Self: self, watch: 10 * time.Millisecond}
		ended <- s.Serve(t.Context(), l)
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true}) // it serves, and so it watches
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	select {
	case err := <-ended:
		t.Fatalf("it ended before: %v", err)
	default:
	}
	write(self + ".new")
	if err := os.Rename(self+".new", self); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on with the old program")
	}
}

func TestCertificateFollowsCAAndNames(t *testing.T) {
	pki, _ := authority(t)
	names := []string{"node-1"}
	i := &issued{pki: pki, names: func() ([]string, error) { return names, nil }, log: slog.New(slog.DiscardHandler)}
	get := func() *tls.Certificate {
		t.Helper()
		i.checked = time.Time{}
		c, err := i.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get()
	if get() != first {
		t.Error("another certificate without a reason")
	}
	names = []string{"node-1", "10.0.0.9"}
	second := get()
	if second == first || second.Leaf.VerifyHostname("10.0.0.9") != nil {
		t.Error("the certificate lacks a new address")
	}
	other, pool := authority(t)
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := os.Rename(filepath.Join(other, name), filepath.Join(pki, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := get().Leaf.Verify(x509.VerifyOptions{Roots: pool}); err != nil {
		t.Errorf("after the rotation of the CA: %v", err)
	}
	if err := os.Remove(filepath.Join(pki, "ca.key")); err != nil {
		t.Fatal(err)
	}
	get() // the console keeps what it has
}

func TestConsoleAnswersToNamesOfTheHost(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	answers := Settings{Hosts: []string{"Console.example"}, OIDC: oidc.Settings{ClientID: "console", URL: "https://Login.console.example:6446"}}.answersTo(slog.New(slog.DiscardHandler))
	for name, want := range map[string]bool{
		host: true, strings.ToUpper(host): true, "localhost": true, "127.0.0.1": true, "::1": true, "console.example": true, "console.example.": true, "login.console.example": true,
		"evil.example": false, "192.0.2.7": false, "": false, host + ".evil.example": false,
	} {
		if got := answers(name); got != want && name != "::1" { // a host may have no IPv6
			t.Errorf("%q: got %t", name, got)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for want, s := range map[string]Settings{
		"":               {},
		"--listen":       {Listen: "6446"},
		"--private-key":  {Certificate: "/a"},
		"--bundles":      {Settings: command.Settings{Bundles: "bundles"}},
		"--bundle-key":   {Settings: command.Settings{BundleKeys: []string{"/a", "release.pub"}}},
		"begin with -":   {Settings: command.Settings{SnapshotKey: "--unsigned"}},
		"--certificate ": {Certificate: "a", PrivateKey: "/b"},
		"--oidc-url":     {OIDC: oidc.Settings{ClientID: "console", URL: "console.example"}},
	} {
		if err := s.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%+v: got %v, want %q", s, err, want)
		}
	}
}

func TestSettingsAreKept(t *testing.T) {
	h := Home{Root: t.TempDir()}
	if err := h.CheckOn(); !errors.Is(err, ErrOff) {
		t.Errorf("before: %v", err)
	}
	s := Settings{Listen: "127.0.0.1:6446", Hosts: []string{"console.example"}, OIDC: oidc.Settings{ClientID: "console"}, Settings: command.Settings{SnapshotKey: "age1x"}}
	if err := os.MkdirAll(filepath.Join(h.Root, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.write(s); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Read(); err != nil || got.Listen != s.Listen || got.SnapshotKey != s.SnapshotKey || !slices.Equal(got.Hosts, s.Hosts) || got.OIDC.ClientID != "console" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestIssuerSendsPeopleToFirstAddress(t *testing.T) {
	for want, s := range map[string]Settings{
		"": {Listen: "127.0.0.1:6446"},
		"https://127.0.0.1:6446" + oidc.CallbackPath:       {Listen: "127.0.0.1:6446", OIDC: oidc.Settings{ClientID: "console"}},
		"https://console.example:7000" + oidc.CallbackPath: {Listen: ":7000", Hosts: []string{"console.example"}, OIDC: oidc.Settings{ClientID: "console"}},
		"https://other.example" + oidc.CallbackPath:        {Listen: ":7000", Hosts: []string{"console.example"}, OIDC: oidc.Settings{ClientID: "console", URL: "https://other.example/"}},
	} {
		o, err := s.OpenID()
		if got := o.RedirectURI(); err != nil || got != want && o.ClientID != "" || (o.ClientID == "") != (want == "") {
			t.Errorf("got %s, %v, want %q", got, err, want)
		}
		if client, err := s.issuer(); err != nil || (client == nil) != (want == "") {
			t.Errorf("%q: %v, %v", want, client, err)
		}
	}
}

// TestUnitIsValid asks systemd about the unit.
func TestUnitIsValid(t *testing.T) {
	text := Home{Root: "/var/lib/a %h $b"}.unit("/bin/true", Settings{Settings: command.Settings{SnapshotStore: "/var/backups/sealift"}})
	for _, want := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", `--root "/var/lib/a %%h $$b"`, `"-/var/backups/sealift"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	verifyUnit(t, text)
}

// TestWorkUnitIsValid asks systemd about the unit in which upgrades run.
func TestWorkUnitIsValid(t *testing.T) {
	text := Home{Root: "/var/lib/a %h $b", LogDir: "/var/log/sealift"}.workUnit("/bin/true")
	for _, want := range []string{`ExecStart="/bin/true" work --root "/var/lib/a %%h $$b" --log-dir "/var/log/sealift"`, "Type=exec"} {
		if !strings.Contains(text, want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	if strings.Contains(text, "[Install]") || strings.Contains(text, "Restart=") || strings.Contains(text, "UMask=") {
		t.Errorf("the unit starts by itself, or hides the files of hooks: %s", text)
	}
	verifyUnit(t, text)
}

// TestWorkIsInTheAudit runs a change that a console has requested, as its unit does.
func TestWorkIsInTheAudit(t *testing.T) {
	short.AsRoot(t, "a program that runs as root")
	h := Home{Root: t.TempDir(), LogDir: t.TempDir()}
	program := filepath.Join(t.TempDir(), "sealift")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"ran $*\"\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.Work(t.Context(), program); err == nil {
		t.Error("there was something to do")
	}
	runner := h.runner(slog.New(slog.DiscardHandler))
	runner.Start = func(ctx context.Context) error { return h.Work(ctx, program) }
	runner.Active = func(context.Context) (bool, error) { return false, nil }
	request := background.Request{Action: "upgrade-start", Command: "sudo sealift upgrade --yes", Words: []string{"upgrade", "--yes"}, Who: "jane", Began: time.Now()}
	if err := runner.Begin(t.Context(), request, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if s, err := runner.Read(t.Context()); err != nil || s.Progress != "ran upgrade --yes\n" || s.Failure != "failed with exit code 3" {
		t.Errorf("got %+v, %v", s, err)
	}
	if lines, err := h.Audit().Last(5); err != nil || len(lines) != 1 || lines[0].Who != "jane" || lines[0].What != "action upgrade-start" || lines[0].Result != "failed with exit code 3" {
		t.Errorf("the audit has %+v, %v", lines, err)
	}
}

// pemOf encodes a block.
func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// TestAddressesCanBeOpened listens on all addresses, by every way to say so: nobody can open the address 0.0.0.0, and the console does not
// answer to that name.
func TestAddressesCanBeOpened(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"https://console.example:7000/", "https://" + host + ":7000/"}
	for listen, want := range map[string][]string{":7000": all, "0.0.0.0:7000": all, "[::]:7000": all, "10.0.0.1:7000": {"https://10.0.0.1:7000/"}} {
		got, err := Settings{Listen: listen, Hosts: []string{"console.example"}}.Addresses()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", listen, got, err)
		}
	}
}
