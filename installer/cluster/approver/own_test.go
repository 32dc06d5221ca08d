package approver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster/token"
)

// TestJoiningControlPlaneApprovesOnlyItsRequest uses a request of the host's kubelet beside those of others.
func TestJoiningControlPlaneApprovesOnlyItsRequest(t *testing.T) {
	client := fake.NewClientset()
	key := newKey(t)
	own, other, kubelet := [2]string{token.User + "abcdef", token.NodeGroup}, [2]string{token.User + "ghijkl", token.NodeGroup}, [2]string{"system:node:host-2", "system:nodes"}
	for name, r := range map[string]struct {
		node string
		as   [2]string
	}{
		"own": {"host-2", own}, "with another token": {"host-2", other}, "of another name": {"host-3", own}, "of a kubelet": {"host-2", kubelet},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + r.node, Organization: []string{"system:nodes"}}}, key)
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
		if got, err := approveWithToken(t.Context(), client, "host-2", "abcdef"); err != nil || strings.Join(got, " ") != want {
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
