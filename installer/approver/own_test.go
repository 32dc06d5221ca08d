package approver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/token"
)

// TestJoiningControlPlaneApprovesItsOwnKeyAlone has a request of the host's kubelet beside those of others for the same name.
func TestJoiningControlPlaneApprovesItsOwnKeyAlone(t *testing.T) {
	client := fake.NewClientset()
	own := newKey(t)
	token1, kubelet := [2]string{token.User + "abcdef", token.NodeGroup}, [2]string{"system:node:host-2", "system:nodes"}
	for name, r := range map[string]struct {
		node string
		key  *ecdsa.PrivateKey
		as   [2]string
	}{
		"own": {"host-2", own, token1}, "of another key": {"host-2", newKey(t), token1}, "of another name": {"host-3", own, token1}, "of a kubelet": {"host-2", own, kubelet},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + r.node, Organization: []string{"system:nodes"}}}, r.key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{Username: r.as[0], Groups: []string{r.as[1]}, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
				Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"own", ""} { // the second time there is nothing left
		if got, err := approveKey(t.Context(), client, "host-2", own.Public()); err != nil || got != want {
			t.Errorf("approved %q, want %q: %v", got, want, err)
		}
	}
	all, err := client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Items {
		if (len(r.Status.Conditions) == 1) != (r.Name == "own") {
			t.Errorf("%s: %+v", r.Name, r.Status.Conditions)
		}
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
