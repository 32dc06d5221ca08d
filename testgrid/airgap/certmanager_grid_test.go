//go:build grid

package airgap_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// TestCertificatesAreIssuedAndRenewed uses a certificate of an own CA. A server uses it, and a client that trusts the CA connects, before and
// after the renewal. While the webhook is away, other objects are made as before.
func TestCertificatesAreIssuedAndRenewed(t *testing.T) {
	r, without := buildWith(t, "cert-manager"), build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}
	n.must(install)
	for _, name := range []string{"ca.yaml", "web.yaml"} {
		n.must("cat >/root/" + name + " <<'END'\n" + docexamples.File(t, filepath.Join(repository, "docs/addons/cert-manager.md"), name) + "END")
	}
	n.within(120, kubectl+"apply --dry-run=server -f /root/ca.yaml")
	n.must(kubectl + "apply -f /root/ca.yaml && " + kubectl + "wait clusterissuer/site --for condition=Ready --timeout 120s")
	n.must(kubectl + "apply -f /root/web.yaml && " + kubectl + "wait certificate/web --for condition=Ready --timeout 120s")
	first := n.servesWith("web", "web.example.org")
	n.must(kubectl + "wait certificate/web --for jsonpath='{.status.revision}'=2 --timeout 180s && " + kubectl + "wait certificate/web --for condition=Ready --timeout 60s")
	if second := n.servesWith("web", "web.example.org"); second.SerialNumber.Cmp(first.SerialNumber) == 0 || !second.NotAfter.After(first.NotAfter) {
		t.Errorf("the certificate was not renewed: it ends at %s, as before", second.NotAfter)
	}

	const webhook = "--namespace cert-manager deployment/cert-manager-webhook "
	n.must(kubectl + "scale --replicas 0 " + webhook)
	n.within(120, kubectl+"create --dry-run=server -f /root/web.yaml 2>&1 | grep 'failed calling webhook'")
	n.must(kubectl + "create configmap made --dry-run=server")
	n.must(kubectl + "scale --replicas 1 " + webhook + "&& " + kubectl + "rollout status --timeout 180s " + webhook)
	n.must(kubectl + "delete -f /root/web.yaml -f /root/ca.yaml && " + kubectl + "delete secret web && " + kubectl + "--namespace cert-manager delete secret site-ca")

	n.pulled()
	if out := n.must(install); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	n.followsAddOn("addons/cert-manager.md", "")
	n.leaves("cert-manager")
}

// servesWith connects to a server that has the certificate of a Secret, as a client that trusts its CA, and returns the certificate.
func (n node) servesWith(secret, name string) *x509.Certificate {
	n.t.Helper()
	part := func(key string) []byte {
		return []byte(n.must(kubectl + "get secret " + secret + ` -o jsonpath='{.data.` + strings.ReplaceAll(key, ".", `\.`) + "}' | base64 -d"))
	}
	pair, err := tls.X509KeyPair(part("tls.crt"), part("tls.key"))
	if err != nil {
		n.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(part("ca.crt"))
	server, client := net.Pipe()
	defer server.Close()
	defer client.Close()
	go func() {
		_ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}}).HandshakeContext(n.t.Context())
	}()
	connection := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: name})
	if err := connection.HandshakeContext(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	return connection.ConnectionState().PeerCertificates[0]
}
