package approver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster"
)

// servingRequest is what a kubelet asks for with which it serves at these addresses.
func servingRequest(t *testing.T, node string, addresses ...string) certificatesv1.CertificateSigningRequestSpec {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, DNSNames: []string{node}}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeletServingSignerName,
		Username: "system:node:" + node, Groups: []string{"system:nodes"}, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	}
}

// TestServicesOfUsersTakeNoAddressesOfNodes has nodes that got certificates before somebody made Services with their addresses, and after.
func TestServicesOfUsersTakeNoAddressesOfNodes(t *testing.T) {
	member := func(name, role string, addresses ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{role: ""}}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return n
	}
	client := fake.NewClientset(member("host-1", cluster.ControlPlaneLabel, "10.0.0.1"), member("worker-1", "a", "10.0.0.2", "10.0.0.50", "10.96.0.10", "10.0.0.60"),
		member("worker-2", "a", "10.0.0.3"), member("worker-3", "a", "10.0.0.4"))
	asks := func(name string, addresses ...string) error {
		t.Helper()
		f := facts{nodes: map[string]node{}, services: map[netip.Addr]bool{}, api: newClaims(), chosen: map[netip.Addr]string{}}
		for _, read := range []func(context.Context, kubernetes.Interface) error{f.readNodes, f.readServices, f.readPublished} {
			if err := read(t.Context(), client); err != nil {
				t.Fatal(err)
			}
		}
		r := servingRequest(t, name, addresses...)
		q, err := f.serving(r)
		if err != nil {
			return err
		}
		return f.admit(t.Context(), client, q, r)
	}
	for name, address := range map[string]string{"host-1": "10.0.0.1", "worker-1": "10.0.0.2", "worker-3": "10.0.0.4"} {
		if err := asks(name, address); err != nil {
			t.Errorf("the first certificate of %s: %v", name, err)
		}
	}
	_, err := client.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "takes"}, Spec: corev1.ServiceSpec{
		ClusterIPs: []string{"10.96.0.10"}, ExternalIPs: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.50"}, LoadBalancerIP: "worker-3"},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "10.0.0.60"}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.NoteRemoved(t.Context(), client, "gone"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		why, node string
		addresses []string
		gets      bool
	}{
		{"its first address", "worker-1", []string{"10.0.0.2"}, true},
		{"that of a control plane", "host-1", []string{"10.0.0.1"}, true},
		{"an address that it claims since", "worker-1", []string{"10.0.0.2", "10.0.0.50"}, false},
		{"one that the cluster gave to a Service", "worker-1", []string{"10.96.0.10"}, false},
		{"one that a load balancer gave to a Service", "worker-1", []string{"10.0.0.60"}, false},
		{"that of a node without a certificate", "worker-2", []string{"10.0.0.3"}, false},
		{"that of a node whose name a Service has as its address", "worker-3", []string{"10.0.0.4"}, true},
	} {
		if err := asks(row.node, row.addresses...); (err == nil) != row.gets {
			t.Errorf("%s: %v", row.why, err)
		}
	}
	if err := cluster.NoteRemoved(t.Context(), client, "worker-1"); err != nil {
		t.Fatal(err)
	}
	if data, err := cluster.ReadApproverConfig(t.Context(), client); err != nil || len(data) != 2 || data["serves.host-1"] != "10.0.0.1" || data["serves.worker-3"] != "10.0.0.4" {
		t.Errorf("what is noted in the end: %v, %v", data, err)
	}
}
