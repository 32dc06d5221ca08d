package status

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// seen is the status of an installed node that reads a cluster, as programs see it.
func seen(t *testing.T, config *rest.Config, own bool) (s Status, text string) {
	t.Helper()
	view, err := cluster.ViewOf(config, own)
	if err != nil {
		t.Fatal(err)
	}
	s = Status{State: "installed", AddOns: []AddOn{{Name: "flannel", State: "installed"}}}
	s.askCluster(t.Context(), view)
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, string(data)
}

// withNodes adds this host to the cluster as a Ready node, and another unready one.
func withNodes(t *testing.T, config *rest.Config) (own string) {
	t.Helper()
	own, err := host.Name()
	if err != nil {
		t.Fatal(err)
	}
	nodes := clientset.NewForConfigOrDie(config).CoreV1().Nodes()
	for name, status := range map[string]corev1.ConditionStatus{own: corev1.ConditionTrue, "other": corev1.ConditionFalse} {
		n, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		if _, err := nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return own
}

func TestStatusReportsAPIHealth(t *testing.T) {
	config := controlplane.ForTest(t)
	withNodes(t, config)
	s, text := seen(t, config, false)
	if !strings.Contains(text, `"api":{"endpoint":"`+config.Host+`","answers":true,"ready":true}`) || s.Sees != "cluster" || len(s.Nodes) != 2 {
		t.Errorf("got %s", text)
	}
	if s.Healthy() {
		t.Error("well, with a node that is not Ready")
	}
}

// TestWorkerReportsItselfHealthy gives a node only the rights of the API server's node authorizer.
func TestWorkerReportsItselfHealthy(t *testing.T) {
	config := controlplane.ForTest(t)
	own := withNodes(t, config)
	rules := clientset.NewForConfigOrDie(config).RbacV1()
	_, err := rules.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "itself"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}, ResourceNames: []string{own}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rules.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "itself"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "itself"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + own, Groups: []string{"system:nodes", "system:authenticated"}}
	s, text := seen(t, config, true)
	if !s.Healthy() || s.Sees != "node" || len(s.Nodes) != 1 || s.Nodes[0].Name != own || s.AddOns[0].Health != "" {
		t.Errorf("got %s", text)
	}
	if s, text := seen(t, config, false); s.Healthy() {
		t.Errorf("it may list nodes: %s", text)
	}
}

func TestStatusReportsFailedAPIChecks(t *testing.T) {
	ill := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")
	}))
	defer ill.Close()
	s, text := seen(t, &rest.Config{Host: ill.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, false)
	if s.Cluster != "is not ready: etcd failed: reason withheld" || !s.API.Answers || s.Healthy() {
		t.Errorf("got %s", text)
	}
}

// TestStatusDoesNotWaitForDeadAPI asks one whose connections are taken, as a balancer does, and never answered.
func TestStatusDoesNotWaitForDeadAPI(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, text := seen(t, &rest.Config{Host: "https://" + l.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, false)
	if !strings.HasPrefix(s.Cluster, "does not answer: ") || s.API.Answers || s.Healthy() {
		t.Errorf("got %s", text)
	}
}

func TestExpiringCertificatesAreReported(t *testing.T) {
	now := time.Now()
	ends := func(days int) pki.Entry {
		end := now.AddDate(0, 0, days)
		return pki.Entry{File: "/x", End: &end, Days: &days}
	}
	for _, row := range []struct {
		why     string
		entries []pki.Entry
		told    int
		healthy bool
	}{
		{"far away", []pki.Entry{ends(300), ends(100), {File: "/sa.pub"}}, 0, true},
		{"soon", []pki.Entry{ends(300), ends(80)}, 1, true},
		{"ended", []pki.Entry{ends(-1), ends(80)}, 2, false},
		{"damaged", []pki.Entry{{File: "/x", Problem: "damaged"}}, 1, false},
	} {
		s := Status{State: "installed", Cluster: "answers"}
		s.noteCertificates(row.entries, now)
		if len(s.Certificates) != row.told || s.Healthy() != row.healthy {
			t.Errorf("%s: told %d, healthy %t", row.why, len(s.Certificates), s.Healthy())
		}
	}
}

func TestInterruptedOperationsAreReportedWithResumeCommand(t *testing.T) {
	record := func(step string, outcome lifecycle.Outcome) lifecycle.Record {
		return lifecycle.Record{Operation: lifecycle.Renewing, Step: step, Outcome: outcome}
	}
	installed := lifecycle.Record{Operation: lifecycle.Installing, Step: "a", Outcome: lifecycle.Finished}
	run := node.Run{Resume: "install again", Plan: lifecycle.Plan{{ID: "a"}}}
	for _, row := range []struct {
		why           string
		records       []lifecycle.Record
		state, resume string
	}{
		{"killed", []lifecycle.Record{installed, record("certs/issue", lifecycle.Started)}, "interrupted", "sudo sealift certs renew"},
		{"killed between two steps", []lifecycle.Record{installed, record("certs/issue", lifecycle.Finished)}, "interrupted", "sudo sealift certs renew"},
		{"failed", []lifecycle.Record{installed, record("certs/etcd", lifecycle.Started), record("certs/etcd", lifecycle.Failed)}, "failed", "sudo sealift certs renew"},
		{"finished", []lifecycle.Record{installed, record(pki.LastStep, lifecycle.Finished)}, "installed", ""},
		{"a restore", []lifecycle.Record{installed, {Operation: lifecycle.Restoring, Step: "restore/stop", Outcome: lifecycle.Started}}, "interrupted", "sudo sealift restore SNAPSHOT"},
		{"a finished restore", []lifecycle.Record{installed, {Operation: lifecycle.Restoring, Step: restore.LastStep, Outcome: lifecycle.Finished}}, "installed", ""},
	} {
		var s Status
		if s.read(row.records, run, false); s.State != row.state || s.Resume != row.resume {
			t.Errorf("%s: %s, %q", row.why, s.State, s.Resume)
		}
	}
}

func TestUnfinishedCARotationIsReportedWithResumeCommand(t *testing.T) {
	rootfs := t.TempDir()
	if r, err := rotation(rootfs); r != nil || err != nil {
		t.Errorf("none is under way: %+v, %v", r, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, kind string, der []byte, err error) {
		t.Helper()
		name = filepath.Join(rootfs, kubeadm.PKI, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.MarshalECPrivateKey(key)
	put("sa.key", "EC PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	put("sa.pub", "PUBLIC KEY", der, err)
	state, err := authority.New(rootfs, []string{authority.ServiceAccounts}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sudo sealift certs rotate-ca", "sudo sealift certs rotate-ca --finish"} {
		if err := os.WriteFile(filepath.Join(rootfs, authority.File), state.Encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := rotation(rootfs)
		if err != nil || r.Next != want || r.Since != state.ID || !slices.Equal(r.Parts, []string{authority.ServiceAccounts}) {
			t.Errorf("%+v, %v; want %s", r, err, want)
		}
		state.Signed = new(time.Now())
	}
}

func TestJointUndoIsReported(t *testing.T) {
	t.Parallel()
	store := undo.Store{Root: t.TempDir(), Rootfs: t.TempDir()}
	if u, err := ordered(store.Root); u != nil || err != nil {
		t.Errorf("%+v, %v", u, err)
	}
	set, err := store.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := undo.JointUndo{ID: "0123456789abcdef", Upgrade: set.Upgrade, Leader: "host-1", Server: "10.0.0.1:6445", Snapshot: strings.Repeat("a", 64),
		Members: []cluster.EtcdMember{{Name: "host-1", Peers: []string{"https://10.0.0.1:2380"}}, {Name: "host-2", Peers: []string{"https://10.0.0.2:2380"}}}}
	for _, stage := range []undo.Stage{undo.Prepared, undo.Committed, undo.Restored} {
		if err := set.WriteOrder(o.In(stage)); err != nil {
			t.Fatal(err)
		}
		if u, err := ordered(store.Root); err != nil || (u != nil) != (stage != undo.Prepared) || u != nil && u.Leader != "host-1" {
			t.Errorf("%s: %+v, %v", stage, u, err)
		}
	}
}
