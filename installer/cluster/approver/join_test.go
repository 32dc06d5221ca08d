package approver_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/approver"
	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// bindAutomaticApproval does what kubeadm's init and its upgrade of a cluster do.
func bindAutomaticApproval(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	bind(t, client, "kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", token.NodeGroup)
	bind(t, client, "kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes")
}

func bind(t *testing.T, client kubernetes.Interface, name, role, group string) {
	t.Helper()
	_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// isApproved waits until a request is approved, for a time.
func isApproved(t *testing.T, client kubernetes.Interface, name string, bound time.Duration) bool {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, bound, true, func(ctx context.Context) (bool, error) {
		r, err := client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(r.Status.Conditions) > 0 && r.Status.Conditions[0].Type == certificatesv1.CertificateApproved, err
	})
	if err != nil && !wait.Interrupted(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestTokenCannotJoinControlPlane requests the certificate of a control plane's kubelet with a join token, first in a cluster as
// kubeadm leaves it, whose controller grants it.
func TestTokenCannotJoinControlPlane(t *testing.T) {
	plane := controlplane.StartForTest(t, controlplane.Options{Arguments: []string{"--enable-bootstrap-token-auth=true"}, Controllers: []string{"certificatesigningrequest-approving-controller"}})
	config := plane.Config()
	client := kubernetes.NewForConfigOrDie(config)
	if err := network(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	bind(t, client, "kubeadm:kubelet-bootstrap", "system:node-bootstrapper", token.NodeGroup)
	bindAutomaticApproval(t, client)
	time.Sleep(time.Second) // the authorizer reads rights from a watch
	whole, err := token.Create(t.Context(), client, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	stolen := request{token: whole}.client("host-1")
	if name := stolen.send(t, config); !isApproved(t, client, name, time.Minute) {
		t.Fatal("the test does not show the fault: the cluster did not approve by itself")
	}
	removed, err := cluster.TakeAutomaticApproval(t.Context(), client)
	if err != nil || len(removed) != 2 {
		t.Fatalf("removed %v: %v", removed, err)
	}
	time.Sleep(time.Second) // the authorizer reads rights from a watch
	var log bytes.Buffer
	a := &approver.Approver{Log: slog.New(slog.NewTextHandler(&log, nil)), Node: "host-1"}
	name, worker := stolen.send(t, config), request{token: whole}.client("worker-9").send(t, config)
	if err := a.Pass(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if isApproved(t, client, name, 3*time.Second) || !isApproved(t, client, worker, time.Second) {
		t.Errorf("the control plane's certificate is given away, or that of a new worker is not:\n%s", log.String())
	}
	for _, line := range []string{
		`msg="audit: refused" right="approver: client certificate for the name of another node" party=token node=host-1`, `error="host-1 is the name of control plane host-1"`,
		`msg="audit: approved" right="approver: client certificate for the name of a new node" party=token node=worker-9`,
	} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %s:\n%s", line, log.String())
		}
	}

	lost := &approver.Approver{Log: a.Log, Node: "host-2", Own: func() ([]string, error) { return []string{"host-2", "10.10.0.62"}, nil }}
	if err := cluster.NoteRemoved(t.Context(), client, "host-2"); err != nil {
		t.Fatal(err)
	}
	if err := lost.Pass(t.Context(), client); err != nil { // its host is back, and knows nothing of it
		t.Fatal(err)
	}
	name = request{token: whole}.client("host-2").send(t, config)
	if err := a.Pass(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if !isApproved(t, client, name, time.Second) {
		t.Errorf("the host of a removed control plane does not join as a worker:\n%s", log.String())
	}

	bindAutomaticApproval(t, client) // kubeadm upgrade apply
	if err := a.Pass(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Get(t.Context(), "kubeadm:node-autoapprove-bootstrap", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("kubeadm's binding stays: %v", err)
	}
}

// TestAgentStopsAfterUndoToEarlierSealift uses an approver in a cluster whose data do not know of it: agents of an earlier
// Sealift do not approve.
func TestAgentStopsAfterUndoToEarlierSealift(t *testing.T) {
	config := shared.Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	bindAutomaticApproval(t, client)
	decide(t, config)
	if _, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "kubeadm:node-autoapprove-bootstrap", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestJoinIsRepeatable lets a host join, be interrupted when it had made its node, and join again.
func TestJoinIsRepeatable(t *testing.T) {
	config := shared.Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	create := func() request {
		whole, err := token.Create(t.Context(), client, time.Hour, "")
		if err != nil {
			t.Fatal(err)
		}
		return request{token: whole}
	}
	asks := func(r request) bool {
		name := r.client("again").send(t, config)
		return decide(t, config)[name]
	}
	reports := func(ready corev1.ConditionStatus) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "again", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first, another := create(), create()
	for range 2 {
		if !asks(first) {
			t.Error("a host does not join, or not again before it has a node")
		}
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "again"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !asks(first) {
		t.Error("the join is not run again")
	}
	if asks(another) {
		t.Error("another token takes the node over")
	}
	reports(corev1.ConditionTrue)
	if asks(first) {
		t.Error("the token takes a node over that is Ready")
	}
	reports(corev1.ConditionUnknown)
	if !asks(first) {
		t.Error("the join is not run again after the host lost power")
	}
}

// TestRemovedNodeRejoinsOnlyByToken removes a node whose kubelet keeps requesting.
func TestRemovedNodeRejoinsOnlyByToken(t *testing.T) {
	config := shared.Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	node := func() {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	kubelet := request{user: "system:node:left", group: "system:nodes"}
	asks := func(r request) bool {
		name := r.client("left").send(t, config)
		return decide(t, config)[name]
	}
	node()
	if !asks(kubelet) {
		t.Error("a node does not renew its certificate")
	}
	if err := cluster.NoteRemoved(t.Context(), client, "left"); err != nil {
		t.Fatal(err)
	}
	if asks(kubelet) {
		t.Error("a removed node renews its certificate, while it is still on the list")
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "left", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if asks(kubelet) {
		t.Error("a removed node renews its certificate")
	}
	whole, err := token.Create(t.Context(), client, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	if !asks(request{token: whole}) {
		t.Error("a removed node does not join again")
	}
	node()
	if !asks(kubelet) {
		t.Error("a node that joined again does not renew its certificate")
	}
}

// TestTokenRenewsOnceForOneKey lets somebody else use the token of a worker that came back with it.
func TestTokenRenewsOnceForOneKey(t *testing.T) {
	config := shared.Config(t)
	whole, err := token.CreateToRenew(t.Context(), kubernetes.NewForConfigOrDie(config), time.Hour, "", "worker-2")
	if err != nil {
		t.Fatal(err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		who  string
		key  *ecdsa.PrivateKey
		want bool
	}{{"the worker", own, true}, {"the worker, again", own, true}, {"somebody else", nil, false}} {
		name := request{token: whole, key: row.key}.client("worker-2").send(t, config)
		if got := decide(t, config)[name]; got != row.want {
			t.Errorf("%s: approved is %v", row.who, got)
		}
	}
}
