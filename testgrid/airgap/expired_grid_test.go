//go:build grid

package airgap_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// embedded is the certificate in a kubeconfig.
var embedded = regexp.MustCompile(`(client-certificate-data: )(\S+)`)

// authorities reads the CAs of a cluster from a control plane.
func (n node) authorities() (all []tls.Certificate) {
	n.t.Helper()
	for _, name := range []string{"ca", "etcd/ca", "front-proxy-ca"} {
		pair, err := tls.X509KeyPair([]byte(n.must("cat /etc/kubernetes/pki/"+name+".crt")), []byte(n.must("cat /etc/kubernetes/pki/"+name+".key")))
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, pair)
	}
	return all
}

// ended makes the first certificate of a PEM one that ended an hour ago.
func (n node) ended(authorities []tls.Certificate, text []byte) []byte {
	n.t.Helper()
	return n.ending(authorities, text, time.Now().Add(-time.Hour))
}

// ending makes the first certificate of a PEM one with another end. Everything else is kept, including what follows it.
func (n node) ending(authorities []tls.Certificate, text []byte, end time.Time) []byte {
	n.t.Helper()
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		n.t.Fatalf("no certificate:\n%s", text)
	}
	old, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, ca := range authorities {
		if old.CheckSignatureFrom(ca.Leaf) != nil {
			continue
		}
		made := *old
		made.SerialNumber, made.NotBefore, made.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().AddDate(-1, 0, 0), end
		der, err := x509.CreateCertificate(rand.Reader, &made, ca.Leaf, old.PublicKey, ca.PrivateKey)
		if err != nil {
			n.t.Fatal(err)
		}
		return append(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: der}), rest...)
	}
	n.t.Fatalf("%s has a CA that the cluster does not have", old.Subject)
	return nil
}

// expire ends every certificate of a node that one of the CAs signed, as if the node had been off for more than a year.
func (n node) expire(authorities []tls.Certificate) (files int) {
	n.t.Helper()
	list := n.must("find /etc/kubernetes/pki -name '*.crt' ! -name '*ca.crt'; grep -ls client-certificate-data /etc/kubernetes/*.conf; ls /var/lib/kubelet/pki/*-current.pem")
	for file := range strings.FieldsSeq(list) {
		text := []byte(n.must("cat " + file))
		if strings.HasSuffix(file, ".conf") {
			text = embedded.ReplaceAllFunc(text, func(field []byte) []byte {
				found := embedded.FindSubmatch(field)
				certificate, err := base64.StdEncoding.DecodeString(string(found[2]))
				if err != nil {
					n.t.Fatal(err)
				}
				return append(found[1], base64.StdEncoding.EncodeToString(n.ended(authorities, certificate))...)
			})
		} else {
			text = n.ended(authorities, append(text, '\n'))
		}
		n.must("base64 -d >" + file + " <<<" + base64.StdEncoding.EncodeToString(text))
		files++
	}
	return files
}

// shown is the certificate that a server shows to a host.
func (n node) shown(address string) (shown *x509.Certificate, err error) {
	n.t.Helper()
	conn, err := n.Dial(n.t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	config := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		shown = state.PeerCertificates[0]
		return nil
	}}
	if err := tls.Client(conn, config).HandshakeContext(n.t.Context()); shown == nil {
		return nil, err // a server that requires a client certificate ends the handshake after it has shown its own
	}
	return shown, nil
}

// servesVerified checks that the kubelet of a host presents a certificate that the cluster's CA signed for its address.
func (n node) servesVerified(ca *x509.Certificate, address string) {
	n.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	var err error
	for range 60 {
		var leaf *x509.Certificate
		if leaf, err = n.shown(net.JoinHostPort(address, "10250")); err == nil {
			_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: address})
		}
		if err == nil {
			return
		}
		time.Sleep(2 * time.Second)
	}
	n.t.Fatalf("the kubelet at %s: %v\n%s", address, err, n.must(kubectl+"get csr; journalctl -u sealift-agent | tail"))
}

// TestNodesOfflineTooLongRecover ends all certificates of a worker and of a control plane.
func TestNodesOfflineTooLongRecover(t *testing.T) {
	r := build(t, current, "debian-12")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.must(install)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	comeBack(t, first, worker)
}

// comeBack ends all certificates of a worker, and then of the only control plane.
func comeBack(t *testing.T, first, worker node) {
	t.Helper()
	authorities := first.authorities()
	ca := authorities[0].Leaf
	for _, n := range []node{first, worker} {
		first.servesVerified(ca, n.Address().String())
		if c := n.certificates()["/var/lib/kubelet/pki/kubelet-server-current.pem"]; c.Problem != "" || c.End == nil {
			t.Errorf("%s: %+v", n.Name(), c)
		}
	}

	worker.must("systemctl stop kubelet sealift-agent")
	if files := worker.expire(authorities); files != 2 {
		t.Errorf("%d files of the worker have ended", files)
	}
	worker.must("systemctl start kubelet sealift-agent")
	worker.refuses("sealift status", 1, "certificates need attention")
	worker.refuses("sealift certs renew", 1, "sealift token create --renew "+worker.Name())
	worker.refuses("sealift certs renew --token abcdef.0123456789abcdef", 1, "make another with")
	command := first.joinCommand("--renew " + worker.Name())
	worker.must("sealift certs renew --plan --token " + strings.Split(command, "'")[1])
	began := time.Now()
	t.Log(worker.must(strings.Replace(command, "sudo ", "", 1)))
	t.Logf("the worker came back in %s", time.Since(began).Round(time.Second))
	worker.must("test ! -e /etc/kubernetes/bootstrap-kubelet.conf && sealift status")
	first.servesVerified(ca, worker.Address().String())

	first.must("systemctl stop sealift-agent kubelet")
	if files := first.expire(authorities); files < 13 {
		t.Errorf("%d files of the control plane have ended", files)
	}
	first.must("systemctl restart kubelet")
	first.refuses("sealift status", 1, "certificates need attention")
	began = time.Now()
	t.Log(first.must("sealift certs renew"))
	t.Logf("the control plane came back by a command in %s", time.Since(began).Round(time.Second))
	first.must("systemctl start sealift-agent")
	first.must("for i in $(seq 60); do sealift status && exit 0; sleep 3; done; exit 1")

	first.must("systemctl stop sealift-agent kubelet")
	first.expire(authorities)
	if err := first.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	t.Log(first.must("for i in $(seq 150); do sealift status && exit 0; sleep 3; done; journalctl -u sealift-agent | tail -30; sealift journal | tail; exit 1"))
	t.Logf("the control plane came back by itself in %s", time.Since(began).Round(time.Second))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if next := first.certificates()["/etc/kubernetes/admin.conf"]; next.End.Before(time.Now().AddDate(0, 11, 0)) {
		t.Errorf("%+v", next)
	}
}
