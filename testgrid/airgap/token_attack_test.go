package airgap_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/internal/shellword"
)

// attacker has a join token, and a host in the cluster's network.
type attacker struct {
	first node // a control plane
	host  node
	key   *ecdsa.PrivateKey
}

// tokenGainsNothing tries to become root on a control plane with a join token: a certificate of the control plane's name, the secrets
// of the share, and an intent for the control plane's agent. The worker has joined.
func tokenGainsNothing(first, worker node, token string) {
	t := worker.t
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := attacker{first, worker, key}
	as := "kubectl --server https://" + first.Address().String() + ":6443 --certificate-authority /etc/kubernetes/pki/ca.crt --token " + token + " "
	a.asks(as, "stolen", first.Name())
	a.asks(as, "own", worker.Name())
	const refused = "journalctl -u sealift-agent | grep 'audit: refused' | grep "
	first.must("for i in $(seq 150); do " + refused + "stolen && " + refused + "own && exit 0; sleep 0.2; done; journalctl -u sealift-agent; exit 1")
	if got := first.must(kubectl + "get csr stolen own -o jsonpath={.items[*].status}"); strings.Trim(got, " {}") != "" {
		t.Errorf("the requests were answered: %s", got)
	}
	if out, code := worker.run(as + "get secrets --all-namespaces 2>&1"); code == 0 {
		t.Errorf("the token reads Secrets:\n%s", out)
	}

	// An administrator who approves by mistake supplies the name, and no role.
	first.must(kubectl + "certificate approve stolen && for i in $(seq 100); do " + kubectl + "get csr stolen -o jsonpath={.status.certificate} | grep . && exit 0; sleep 0.2; done; exit 1")
	encoded := strings.TrimSpace(first.must(kubectl + "get csr stolen -o jsonpath={.status.certificate}"))
	chain, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(chain)
	status, body := a.get("/v1/cluster", block.Bytes)
	var of share.Cluster
	if err := json.Unmarshal(body, &of); status != http.StatusOK || err != nil || of.Encryption+of.Rotation != "" {
		t.Errorf("/v1/cluster answers %d: %s", status, body)
	}
	for _, path := range []string{"/v1/undo", "/v1/undo/etcd"} {
		if status, body := a.get(path, block.Bytes); status != http.StatusForbidden {
			t.Errorf("%s answers %d: %s", path, status, body)
		}
	}
	first.must("journalctl -u sealift-node | grep 'audit: refused' | grep 'party=worker' | grep node=" + first.Name())

	// The annotation may be written with that certificate. The agent requires a signature.
	evil := strings.Repeat("0", 64)
	forged := fmt.Sprintf(`{"upgrade":"forged","operation":"prepare","attempt":1,"index":"%s","sealift":"%s","server":"%s:6445","from":"`+current+`"}`, evil, evil, worker.Address())
	for _, n := range []node{first, worker} {
		first.must(kubectl + "annotate --overwrite node " + n.Name() + " sealift.dev/intent=" + shellword.Quote(forged))
		first.must("for i in $(seq 150); do " + kubectl + "get node " + n.Name() + ` -o jsonpath='{.metadata.annotations.sealift\.dev/report}' | grep 'no control plane of this cluster signed it' && exit 0; sleep 0.2; done; exit 1`)
		n.must("journalctl -u sealift-agent | grep 'audit: refused'; ! ls /var/lib/sealift/state/sealift-* 2>/dev/null")
		first.must(kubectl + "annotate node " + n.Name() + " sealift.dev/intent-")
	}
	first.must(kubectl + "delete csr stolen own")
}

// asks sends a request for the client certificate of a node, with the credentials of a command.
func (a attacker) asks(as, name, node string) {
	t := a.host.t
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, a.key)
	if err != nil {
		t.Fatal(err)
	}
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	a.host.must(fmt.Sprintf(`%s create -f - <<'END'
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s}
spec: {signerName: kubernetes.io/kube-apiserver-client-kubelet, usages: [digital signature, client auth], request: %s}
END`, as, name, request))
}

// get asks the share of the control plane with a certificate.
func (a attacker) get(path string, certificate []byte) (status int, body []byte) {
	t := a.host.t
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: a.host.Dial, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: a.key}},
	}}}
	answer, err := client.Get("https://" + share.Address(a.first.Address().String()) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got bytes.Buffer
	if _, err := io.Copy(&got, io.LimitReader(answer.Body, 1<<20)); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, got.Bytes()
}
