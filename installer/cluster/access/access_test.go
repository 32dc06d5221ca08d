package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/cluster/access"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

var shared = controlplane.Shared{Options: controlplane.Options{Controllers: []string{controlplane.SigningController}}}

func TestMain(m *testing.M) { shared.Main(m) }

func TestKubeconfigHasRightsOfItsBindingsOnly(t *testing.T) {
	config := shared.Config(t)
	admin := kubernetes.NewForConfigOrDie(config)
	to := access.Cluster{Name: "test", Server: config.Host, CA: config.CAData}
	text, issued, err := access.Issue(t.Context(), admin, to, access.Request{Name: "jane@example.org", Groups: []string{"developers", "on call"}, Valid: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(issued.End); left > time.Hour || left < 30*time.Minute {
		t.Errorf("it ends in %s", left)
	}
	own, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(own)
	if _, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a binding: %v", err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "developers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "developers"}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	allowed := func(want bool) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		// The authorizer learns of bindings by a watch.
		if err := poll.Until(ctx, 50*time.Millisecond, nil, func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			return (err == nil) == want, nil
		}); err != nil {
			t.Fatalf("allowed %v: %v", want, err)
		}
	}
	allowed(true)
	if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), binding.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	allowed(false)

	// Services of Sealift take such a certificate for nobody's.
	block, _ := pem.Decode(own.CertData)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if party, node := identity.Client(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}); party != identity.Anonymous || node != "" {
		t.Errorf("it proves %s %s", party, node)
	}

	all, problems, err := access.List(t.Context(), admin)
	if err != nil || len(problems) > 0 || len(all) != 1 || all[0].Name != "jane@example.org" || all[0].Serial != issued.Serial || strings.Join(all[0].Groups, "|") != strings.Join(issued.Groups, "|") {
		t.Errorf("listed %+v, %v, %v", all, problems, err)
	}
	if _, _, err := access.Issue(t.Context(), admin, to, access.Request{Name: "ci", Valid: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if all, _, err := access.List(t.Context(), admin); err != nil || len(all) != 2 || all[0].Name != "ci" {
		t.Errorf("listed %+v, %v", all, err)
	}
	requests, err := admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(requests.Items) > 0 {
		t.Errorf("%d requests are left: %v", len(requests.Items), err)
	}
}

func TestClusterNamesAreNotRevealed(t *testing.T) {
	for _, r := range []access.Request{
		{Name: "system:node:worker-1", Groups: []string{"system:nodes"}}, {Name: "jane", Groups: []string{"system:masters"}}, {Name: "system:admin"}, {Name: "sealift:control-plane:host-1"},
		{Name: "jane", Groups: []string{"kubeadm:cluster-admins"}},
		{Name: ""}, {Name: "jane", Groups: []string{""}}, {Name: "a\nb"}, {Name: "a\u202eb"}, {Name: "a\xff"}, {Name: strings.Repeat("x", 65)},
	} {
		r.Valid = time.Hour
		if err := r.Check(); err == nil {
			t.Errorf("%q in %q is given out", r.Name, r.Groups)
		}
	}
	for _, valid := range []time.Duration{0, -time.Hour, time.Minute, 400 * 24 * time.Hour} {
		if err := (access.Request{Name: "jane", Valid: valid}).Check(); err == nil {
			t.Errorf("valid for %s", valid)
		}
	}
	if err := (access.Request{Name: "jané.doe@example.org", Groups: []string{"on call"}, Valid: time.Hour}).Check(); err != nil {
		t.Error(err)
	}
}
