package approver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/approver"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// shared is an API server with everything that nodes need before they request certificates.
var shared = controlplane.Shared{Options: controlplane.Options{Arguments: []string{"--enable-bootstrap-token-auth=true"}},
	Prepare: func(ctx context.Context, config *rest.Config) error {
		client := kubernetes.NewForConfigOrDie(config)
		return errors.Join(network(ctx, client), everybodyAsks(ctx, client))
	}}

func TestMain(m *testing.M) { shared.Main(m) }

// request is a certificate that a node requests.
type request struct {
	user, group, subject, organization string
	names, addresses, uris             []string
	usages                             []certificatesv1.KeyUsage
	signer                             string
	token                              string // to authenticate with, instead of user and group
	key                                *ecdsa.PrivateKey
}

// fill completes a request of worker-1 that obeys the rule.
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

// client makes the request one for a client certificate of a node.
func (r request) client(node string) request {
	r.subject, r.organization, r.names, r.addresses = "system:node:"+node, "system:nodes", []string{}, []string{}
	r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	r.signer = certificatesv1.KubeAPIServerClientKubeletSignerName
	return r
}

// send sends the request and returns its name.
func (r request) send(t *testing.T, config *rest.Config) string {
	t.Helper()
	name, err := r.try(t, config)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return name
}

func (r request) try(t *testing.T, config *rest.Config) (string, error) {
	t.Helper()
	key := r.key
	if key == nil {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
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
	switch {
	case r.token != "":
		as = rest.AnonymousClientConfig(config)
		as.BearerToken = r.token
	case r.user == "system:anonymous":
		as = rest.AnonymousClientConfig(config)
	case r.user != "":
		as.Impersonate = rest.ImpersonationConfig{UserName: r.user, Groups: []string{r.group, "system:authenticated"}}
	}
	made, err := kubernetes.NewForConfigOrDie(as).CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: r.signer, Usages: r.usages,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return made.Name, nil
}

// network makes the nodes, Services and ConfigMaps of a cluster.
func network(ctx context.Context, client kubernetes.Interface) error {
	for name, n := range map[string]struct {
		labels    map[string]string
		addresses []string
	}{
		"host-1":                 {map[string]string{"node-role.kubernetes.io/control-plane": ""}, []string{"10.10.0.1", "fd00::1", "host-1.rack.example"}},
		"kubernetes.default.svc": {},                                                // it joined before Sealift looked at names
		"worker-1":               {nil, append([]string{"10.10.0.2"}, ofTheAPI...)}, // it claims more than it has
		"worker-2":               {nil, []string{"10.10.0.3"}},
	} {
		made, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: n.labels}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		for _, a := range n.addresses {
			kind := corev1.NodeInternalDNS
			if net.ParseIP(a) != nil {
				kind = corev1.NodeInternalIP
			}
			made.Status.Addresses = append(made.Status.Addresses, corev1.NodeAddress{Type: kind, Address: a})
		}
		if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if _, err := client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"10.96.0.50"}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.10.0.61"}}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	kubeconfig := func(server string) string {
		return "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: '" + server + "'}}]\n"
	}
	for name, data := range map[string]map[string]string{
		"kube-system/kubeadm-config": {"ClusterConfiguration": "controlPlaneEndpoint: 10.10.0.100:6443\nnetworking: {dnsDomain: k8s.example}\n" +
			"apiServer: {certSANs: [api.corp.example, 203.0.113.7, '*.api.example', 'fd00::100']}\netcd: {local: {serverCertSANs: [etcd.corp.example]}}\n"},
		"kube-system/sealift-operations":    {"load-balancer": `{"id":"1","params":{"from":"10.10.0.100:6443","to":"lb.corp.example:6443"}}`},
		"kube-system/sealift-load-balancer": {"change": `{"id":"1","from":"10.10.0.100:6443","to":"earlier-lb.corp.example:6443"}`},
		"kube-public/cluster-info":          {"kubeconfig": kubeconfig("https://old-lb.corp.example:6443")},
		"kube-system/kube-proxy":            {"kubeconfig.conf": kubeconfig("https://10.10.0.101:6443")},
		"kube-system/sealift-approver":      {"names.host-2": "host-2 10.10.0.62 patched.corp.example"},
	} {
		namespace, name, _ := strings.Cut(name, "/")
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// everybodyAsks gives everybody all rights: only the approver decides.
func everybodyAsks(ctx context.Context, client kubernetes.Interface) error {
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all-ask"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "anybody", Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}}}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) { // it reads rights from a watch
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
}

// decide has two approvers check all requests, in sequence, and returns which requests are approved, by name.
func decide(t *testing.T, config *rest.Config) map[string]bool {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(config)
	for range 2 {
		a := &approver.Approver{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Members: func(context.Context) ([]cluster.EtcdMember, error) {
			return []cluster.EtcdMember{{Name: "host-1", Peers: []string{"https://10.10.0.1:2380"}}, {Name: "host-3", Peers: []string{"https://10.10.0.63:2380"}}}, nil
		}, Own: func() ([]string, error) { return []string{"own.corp.example", "10.10.0.64"}, nil }, Node: "host-1"}
		if err := a.Pass(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	approved := map[string]bool{}
	for _, r := range list.Items {
		if len(r.Status.Conditions) > 1 {
			t.Errorf("%s: %+v", r.Name, r.Status.Conditions)
		}
		approved[r.Name] = len(r.Status.Conditions) == 1 && r.Status.Conditions[0].Type == certificatesv1.CertificateApproved
	}
	return approved
}
