package keys

import (
	"io"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestInterruptedRewriteContinues: a cluster may have more Secrets than an API can write between two restarts.
func TestInterruptedRewriteContinues(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	var lists, updates []string
	client.PrependReactor("list", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		next := a.(clienttesting.ListActionImpl).ListOptions.Continue
		lists = append(lists, next)
		page := &corev1.SecretList{}
		switch next {
		case "":
			page.Continue = "old"
			page.Items = []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
		case "old": // etcd was compacted
			expired := apierrors.NewResourceExpired("too old")
			expired.ErrStatus.Continue = "newer"
			return true, nil, expired
		default:
			page.Items = []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
		}
		return true, page, nil
	})
	client.PrependReactor("update", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		secret := a.(clienttesting.UpdateAction).GetObject().(*corev1.Secret)
		updates = append(updates, secret.Name)
		if len(updates) == 2 {
			return true, nil, syscall.ECONNREFUSED
		}
		return true, secret, nil
	})
	if err := rewrite(t.Context(), client, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(lists, []string{"", "old", "newer"}) || !slices.Equal(updates, []string{"a", "b", "b", "c"}) {
		t.Errorf("lists %q, updates %q", lists, updates)
	}
}
