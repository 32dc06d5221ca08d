package renewal_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/renewal"
	"github.com/sealift/sealift/testgrid/controlplane"
	"github.com/sealift/sealift/testgrid/short"
)

var shared struct {
	once   sync.Once
	plane  *controlplane.ControlPlane
	config *rest.Config
	err    error
}

// server is an API server that all tests of this package share.
func server(t *testing.T) *rest.Config {
	t.Helper()
	short.Skip(t, "a kube-apiserver")
	shared.once.Do(func() {
		shared.plane, shared.err = controlplane.Start(t.Context(), controlplane.Options{})
		if shared.err == nil {
			shared.config = shared.plane.Config()
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.config
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.plane != nil {
		_ = shared.plane.Stop()
	}
	os.Exit(code)
}

// request is a certificate that a node asks for.
type request struct {
	user, group, subject, organization string
	names, addresses, uris             []string
	usages                             []certificatesv1.KeyUsage
	signer                             string
}

// fill completes a request of worker-1 that is within the rule.
func (r request) fill() request {
	if r.user == "" {
		r.user = "system:node:worker-1"
	}
	if r.group == "" {
		r.group = "system:nodes"
	}
	if r.subject == "" {
		r.subject = r.user
	}
	if r.organization == "" {
		r.organization = "system:nodes"
	}
	if r.names == nil && r.addresses == nil {
		r.names, r.addresses = []string{"worker-1"}, []string{"10.10.0.2"}
	}
	if r.usages == nil {
		r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	}
	if r.signer == "" {
		r.signer = certificatesv1.KubeletServingSignerName
	}
	return r
}

func (r request) send(t *testing.T, config *rest.Config) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: r.subject, Organization: []string{r.organization}}, DNSNames: r.names}
	for _, a := range r.addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	for _, u := range r.uris {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: r.user, Groups: []string{r.group, "system:authenticated"}}
	made, err := kubernetes.NewForConfigOrDie(as).CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: r.signer, Usages: r.usages,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return made.Name
}

// network makes the nodes and Services of a cluster.
func network(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, n := range map[string]struct {
		labels    map[string]string
		addresses []string
	}{
		"host-1":                 {map[string]string{"node-role.kubernetes.io/control-plane": ""}, []string{"10.10.0.1"}},
		"kubernetes.default.svc": {},                                                                                  // anyone who joins a node chooses its name
		"worker-1":               {nil, []string{"10.10.0.2", "10.10.0.1", "10.96.0.50", "10.10.0.100", "127.0.0.1"}}, // it claims more than it has
	} {
		made, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: n.labels}}, metav1.CreateOptions{})
		must(err)
		for _, a := range n.addresses {
			made.Status.Addresses = append(made.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		_, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		must(err)
	}
	_, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"10.96.0.50"}}}, metav1.CreateOptions{})
	must(err)
	_, err = client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"},
		Data: map[string]string{"ClusterConfiguration": "controlPlaneEndpoint: 10.10.0.100:6443\n"}}, metav1.CreateOptions{})
	must(err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all-ask"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}}}, metav1.CreateOptions{})
	must(err)
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "anybody", Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}}}
	must(wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) { // it reads rights from a watch
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}))
}

func TestANodeGetsAServingCertificateForItsOwnNameAndAddressesAlone(t *testing.T) {
	config := server(t)
	client := kubernetes.NewForConfigOrDie(config)
	network(t, client)
	client1 := certificatesv1.UsageClientAuth
	sent := map[string]string{} // why, by the name of the request
	for why, r := range map[string]request{
		"yes: its own":                       {},
		"yes: an RSA key":                    {usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth}},
		"yes: a control plane":               {user: "system:node:host-1", names: []string{"host-1"}, addresses: []string{}},
		"the address of another node":        {addresses: []string{"10.10.0.2", "10.10.0.1"}},
		"an address of nobody":               {addresses: []string{"10.10.0.9"}},
		"the address of a Service":           {addresses: []string{"10.96.0.50"}},
		"the address of the API":             {addresses: []string{"10.10.0.100"}},
		"an address of every host":           {addresses: []string{"127.0.0.1"}},
		"the name of another node":           {names: []string{"worker-1", "host-1"}},
		"the name of a Service":              {names: []string{"kubernetes.default.svc"}},
		"a node that is called as a Service": {user: "system:node:kubernetes.default.svc", names: []string{"kubernetes.default.svc"}, addresses: []string{}},
		"a URI":                              {names: []string{"worker-1"}, uris: []string{"spiffe://cluster/worker-1"}},
		"nothing":                            {names: []string{}, addresses: []string{}},
		"the subject of another":             {subject: "system:node:host-1"},
		"another group":                      {organization: "system:masters"},
		"client authentication":              {usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, client1}},
		"a node that the cluster lacks":      {user: "system:node:gone", names: []string{"gone"}},
		"somebody who is not a node":         {user: "mallory", group: "people", subject: "system:node:worker-1"},
		"a node's name without its group":    {group: "people"},
		"not for serving":                    {signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, client1}},
	} {
		sent[r.fill().send(t, config)] = why
	}
	a := &renewal.Approver{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for range 2 {
		if err := a.Approve(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Items {
		why := sent[r.Name]
		approved := len(r.Status.Conditions) == 1 && r.Status.Conditions[0].Type == certificatesv1.CertificateApproved
		if want := why != "" && why[:3] == "yes"; approved != want || len(r.Status.Conditions) > 1 {
			t.Errorf("%s: %+v", why, r.Status.Conditions)
		}
	}
	if len(list.Items) != len(sent) {
		t.Errorf("%d requests, %d were sent", len(list.Items), len(sent))
	}
}
