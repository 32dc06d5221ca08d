package share_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// as returns a client that shows a kubelet's certificate, or another one in a file.
func (n *node) as(t *testing.T, file string) *share.Client {
	t.Helper()
	return n.showing(t, share.KubeletCertificate(file))
}

func (n *node) showing(t *testing.T, certificate func() (*tls.Certificate, error)) *share.Client {
	t.Helper()
	c, err := share.NewNodeClient(n.address, filepath.Join(n.pki, "ca.crt"), certificate)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// controlPlane returns a client that proves itself as a control plane.
func (n *node) controlPlane(t *testing.T, name string) *share.Client {
	t.Helper()
	authority, err := identity.ReadAuthority(n.pki)
	if err != nil {
		t.Fatal(err)
	}
	return n.showing(t, authority.Client(name))
}

// invited returns a client with a token, and with the key of the certificates if there is one.
func (n *node) invited(t *testing.T, token, key string) *share.Client {
	t.Helper()
	c, err := share.NewClient(n.address, token, n.caHash)
	if err != nil {
		t.Fatal(err)
	}
	c.CertificateKey = key
	return c
}

// TestAccessFollowsMatrix requests everything as everybody, and reads the audit log.
func TestAccessFollowsMatrix(t *testing.T) {
	n := serve(t)
	snapshot := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(snapshot, []byte("all Secrets"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.undo = func(string) (share.Undo, error) { return share.Undo{Order: []byte("{}"), Etcd: snapshot}, nil }
	kubelet := fixture.ClientCertificate(t, n.pki, "system:node:host-1", "system:nodes")
	parties := map[identity.Party]*share.Client{
		identity.Anonymous:     n.as(t, fixture.ClientCertificate(t, n.pki, "somebody", "users")),
		identity.Token:         n.invited(t, token, ""),
		identity.Invited:       n.invited(t, token, certificateKey),
		identity.Worker:        n.as(t, kubelet),
		identity.Member:        n.controlPlane(t, "host-0"),
		identity.Administrator: n.as(t, fixture.ClientCertificate(t, n.pki, "kubernetes-admin", "system:masters")), // no party here
	}
	cluster := func(part func(share.Cluster) string) func(*share.Client) error {
		return func(c *share.Client) error {
			of, err := c.Cluster(t.Context())
			if err == nil && part(of) == "" {
				err = errors.New("left out")
			}
			return err
		}
	}
	questions := map[identity.Right]func(*share.Client) error{
		identity.ReadScript:    func(c *share.Client) error { return c.Program(t.Context(), "linux/amd64", io.Discard) },
		identity.ReadCluster:   cluster(func(c share.Cluster) string { return c.Name }),
		identity.ReadInstaller: cluster(func(c share.Cluster) string { return strings.TrimPrefix(c.Installer, "part") }),
		identity.ReadKeys:      cluster(func(c share.Cluster) string { return c.Encryption }),
		identity.ReadCAKeys:    cluster(func(c share.Cluster) string { return c.Rotation }),
		identity.ReadBundle: func(c *share.Client) error {
			_, err := c.Missing(t.Context(), []string{})
			return err
		},
		identity.ReadImages: func(c *share.Client) error {
			_, err := c.Shelved(t.Context(), strings.Repeat("0", 64))
			if errors.Is(err, fs.ErrNotExist) { // allowed, and nothing exists
				return nil
			}
			return err
		},
		identity.PullImages: func(c *share.Client) error { return c.Get(t.Context(), "/v2/") },
		identity.ReadBlob:   func(c *share.Client) error { return c.Get(t.Context(), "/v1/blobs/x") }, // a part of what agents answer
		identity.ReadUndo: func(c *share.Client) error {
			_, err := c.Order(t.Context())
			return errors.Join(err, c.Etcd(t.Context(), io.Discard))
		},
	}
	for _, right := range identity.Rights() {
		ask, ok := questions[right]
		if !ok {
			if strings.HasPrefix(string(right), "share: ") {
				t.Errorf("no question for %s", right)
			}
			continue
		}
		for party, c := range parties {
			n.log.take()
			err := ask(c)
			want := party.Has(right)
			if party == identity.Administrator { // the share knows none: root on a control plane is one
				want = identity.Anonymous.Has(right)
			}
			if (err == nil) != want {
				t.Errorf("%s asks for %q: %v", party, right, err)
			}
			secret := !identity.Worker.Has(right)
			if log := n.log.take(); secret && want != strings.Contains(log, `"audit: given out","right":"`+string(right)) {
				t.Errorf("%s asked for %q; logged:\n%s", party, right, log)
			}
		}
	}
}

// TestControlPlaneKubeletHasWorkerRights: the name in a kubelet's certificate gives no role, whatever the Node of that name is.
func TestControlPlaneKubeletHasWorkerRights(t *testing.T) {
	n := serve(t)
	c := n.as(t, fixture.ClientCertificate(t, n.pki, "system:node:host-3", "system:nodes"))
	of, err := c.Cluster(t.Context())
	if err != nil || of.Installer != "part" || of.Encryption+of.Rotation != "" {
		t.Errorf("%+v, %v", of, err)
	}
	if text, err := c.Order(t.Context()); !errors.Is(err, share.ErrRight) {
		t.Errorf("it gets the order %s, %v", text, err)
	}
	if log := n.log.take(); !strings.Contains(log, `"audit: refused"`) || !strings.Contains(log, `"node":"host-3"`) {
		t.Errorf("logged:\n%s", log)
	}
}

// TestWorkerServerIsNotTrusted: each worker has a certificate of the cluster's CA for its own address.
func TestWorkerServerIsNotTrusted(t *testing.T) {
	folder := fixture.CA(t)
	ca, err := tls.LoadX509KeyPair(filepath.Join(folder, "ca.crt"), filepath.Join(folder, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "system:node:worker", Organization: []string{"system:nodes"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der, ca.Leaf.Raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().String()
	join, err := share.NewClient(address, token, identity.CAHash(ca.Leaf))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := share.NewNodeClient(address, filepath.Join(folder, "ca.crt"), share.KubeletCertificate(fixture.ClientCertificate(t, folder, "system:node:host-1", "system:nodes")))
	if err != nil {
		t.Fatal(err)
	}
	for who, c := range map[string]*share.Client{"a host that joins": join, "an agent": agent} {
		if _, err := c.Cluster(t.Context()); !errors.Is(err, share.ErrNoControlPlane) {
			t.Errorf("%s: %v", who, err)
		}
	}
	if asked {
		t.Error("the worker got a request")
	}
}

// TestNodesOfClusterNeedNoToken serves the certificate of a kubelet like a worker's token, and other certificates nothing.
func TestNodesOfClusterNeedNoToken(t *testing.T) {
	n := serve(t)
	client := func(certificate string) *share.Client { return n.as(t, certificate) }
	kubelet := client(fixture.ClientCertificate(t, n.pki, "system:node:host-1", "system:nodes"))
	if c, err := kubelet.Cluster(t.Context()); err != nil || c.Installer != "part" {
		t.Errorf("a kubelet gets %+v, %v", c, err)
	}
	archive, err := kubelet.Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.ReadFile("addons/a/1/install.sh", 1<<20); err != nil {
		t.Errorf("a kubelet asks for a file: %v", err)
	}
	if _, err := archive.ReadFile(bundle.InstallerName, 1<<20); err == nil {
		t.Error("a kubelet gets the Installer, which may have secrets")
	}
	controlPlane := n.controlPlane(t, "host-3")
	if c, err := controlPlane.Cluster(t.Context()); err != nil || c.Installer != "whole" {
		t.Errorf("a control plane gets %+v, %v", c, err)
	}
	if archive, err = controlPlane.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.ReadFile(bundle.InstallerName, 1<<20); err != nil {
		t.Errorf("a control plane asks for the Installer: %v", err)
	}
	var program bytes.Buffer
	if err := kubelet.Program(t.Context(), "linux/amd64", &program); err != nil || !strings.HasPrefix(program.String(), "#!/bin/sh") {
		t.Errorf("a kubelet asks for sealift: %v", err)
	}
	for who, certificate := range map[string]string{
		"a node that was removed":           fixture.ClientCertificate(t, n.pki, "system:node:host-2", "system:nodes"),
		"a user with the name of a node":    fixture.ClientCertificate(t, n.pki, "system:node:host-1", "users"),
		"a user in the group of nodes":      fixture.ClientCertificate(t, n.pki, "host-1", "system:nodes"),
		"an administrator":                  fixture.ClientCertificate(t, n.pki, "kubernetes-admin", "system:masters"),
		"the kubelet of another cluster":    fixture.ClientCertificate(t, fixture.CA(t), "system:node:host-1", "system:nodes"),
		"a file that is not a certificate":  filepath.Join(n.pki, "ca.key"),
		"a certificate that does not exist": filepath.Join(n.pki, "none"),
	} {
		if c, err := client(certificate).Cluster(t.Context()); err == nil {
			t.Errorf("%s gets %+v", who, c)
		} else if strings.HasPrefix(who, "a node") && !errors.Is(err, share.ErrMember) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// TestOnlyControlPlanesOfUndoGetSnapshot serves the order and the snapshot to the nodes that the order names. The API is not asked.
func TestOnlyControlPlanesOfUndoGetSnapshot(t *testing.T) {
	n := serve(t)
	ask := func(c *share.Client) (order, etcd string, err error) {
		text, err := c.Order(t.Context())
		if err != nil {
			return "", "", err
		}
		var content bytes.Buffer
		err = c.Etcd(t.Context(), &content)
		return string(text), content.String(), err
	}
	controlPlane := n.controlPlane(t, "host-5")
	if _, _, err := ask(controlPlane); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without an undo: %v", err)
	}
	snapshot := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(snapshot, []byte("all Secrets"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.undo = func(name string) (share.Undo, error) {
		if name != "host-5" {
			return share.Undo{}, share.ErrMember
		}
		return share.Undo{Order: []byte("{}"), Etcd: snapshot}, nil
	}
	if order, etcd, err := ask(controlPlane); err != nil || order != "{}" || etcd != "all Secrets" {
		t.Errorf("a control plane gets %q, %q, %v", order, etcd, err)
	}
	for who, certificate := range map[string]string{
		"its kubelet":                    fixture.ClientCertificate(t, n.pki, "system:node:host-5", "system:nodes"),
		"another node":                   fixture.ClientCertificate(t, n.pki, "system:node:host-1", "system:nodes"),
		"a user in the group of nodes":   fixture.ClientCertificate(t, n.pki, "host-5", "system:nodes"),
		"an administrator":               fixture.ClientCertificate(t, n.pki, "kubernetes-admin", "system:masters"),
		"the kubelet of another cluster": fixture.ClientCertificate(t, fixture.CA(t), "system:node:host-5", "system:nodes"),
	} {
		if order, _, err := ask(n.as(t, certificate)); err == nil {
			t.Errorf("%s gets %s", who, order)
		}
	}
	if order, _, err := ask(n.controlPlane(t, "host-6")); !errors.Is(err, share.ErrMember) {
		t.Errorf("a control plane that is not part of it gets %s, %v", order, err)
	}
	if text, err := n.invited(t, token, certificateKey).Order(t.Context()); err == nil {
		t.Errorf("a host with a token gets %s", text)
	}
}
