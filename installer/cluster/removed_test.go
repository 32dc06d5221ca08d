package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// TestRemovedNodeDoesNotReregister has the kubelet of a removed node register, with all the rights of a kubelet and more.
func TestRemovedNodeDoesNotReregister(t *testing.T) {
	config := controlplane.ForTest(t)
	client := kubernetes.NewForConfigOrDie(config)
	_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kubelets"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:nodes"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	register := func(ctx context.Context, name string) error {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes"}}
		_, err := kubernetes.NewForConfigOrDie(as).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			err = client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		}
		return err
	}
	until := func(what, name string, is func(error) bool) { // API servers read rights, policies and their parameters from watches
		t.Helper()
		var last error
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			last = register(ctx, name)
			return is(last), nil
		})
		if err != nil {
			t.Errorf("%s: %v", what, last)
		}
	}
	registered := func(err error) bool { return err == nil }
	refused := func(err error) bool {
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "this node was removed from the cluster")
	}
	until("a node that was never removed", "worker-1", registered)
	if err := NoteRemoved(t.Context(), client, "worker-1"); err != nil {
		t.Fatal(err)
	}
	until("a removed node", "worker-1", refused)
	until("another node", "worker-2", registered)
	if err := NoteRemoved(t.Context(), client, "worker-2"); err != nil { // the policy already exists
		t.Fatal(err)
	}
	until("another removed node", "worker-2", refused)
	if err := NoteJoined(t.Context(), client, "worker-1"); err != nil {
		t.Fatal(err)
	}
	until("a node that joins again", "worker-1", registered)
	if err := register(t.Context(), "worker-2"); !refused(err) {
		t.Errorf("the other removed node: %v", err)
	}
}

func TestRecordOfRemovedNodesIsBounded(t *testing.T) {
	data := map[string]string{}
	for n := range maxRemoved {
		data[fmt.Sprintf("host-%d", n)] = RemovedNode{Removed: time.Unix(int64(n), 0).UTC()}.encode()
	}
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: RemovedConfig}, Data: data})
	if err := NoteRemoved(t.Context(), client, "one-more"); err != nil {
		t.Fatal(err)
	}
	all, err := RemovedNodes(t.Context(), client)
	if err != nil || len(all) != maxRemoved || !all["one-more"].Gone() || all["host-0"].Gone() || !all["host-1"].Gone() {
		t.Errorf("%d nodes, %+v, %v", len(all), all["host-0"], err)
	}
	if err := NoteJoined(t.Context(), client, "host-0"); err != nil { // it was never removed, as far as the record goes
		t.Fatal(err)
	}
	if all, err = RemovedNodes(t.Context(), client); err != nil || len(all) != maxRemoved {
		t.Errorf("%d nodes, %v", len(all), err)
	}
}
