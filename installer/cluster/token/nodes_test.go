package token_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster/token"
)

func TestTokenMakesBoundedNumberOfNodes(t *testing.T) {
	client := fake.NewClientset()
	if err := token.Admit(t.Context(), client, "abcdef", "worker", "key", time.Now()); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("a token that the cluster does not have: %v", err)
	}
	whole := create(t, client)
	id, _, _ := strings.Cut(whole, ".")
	for n := range token.MaxNodes {
		if err := token.Admit(t.Context(), client, id, fmt.Sprint("worker-", n), "key", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := token.Admit(t.Context(), client, id, "worker-1", "key", time.Now()); err != nil {
		t.Errorf("a node that joins again: %v", err)
	}
	if err := token.Admit(t.Context(), client, id, "one-more", "key", time.Now()); err == nil || !strings.Contains(err.Error(), "as many as one token may") {
		t.Errorf("one node more: %v", err)
	}
	for range token.MaxTimes - 2 {
		if err := token.Admit(t.Context(), client, id, "worker-1", "key", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := token.Admit(t.Context(), client, id, "worker-1", "key", time.Now()); err == nil {
		t.Error("a node joins without end")
	}
	use, err := token.Find(t.Context(), client, id)
	if err != nil || len(use.Nodes) != token.MaxNodes || use.Nodes["worker-1"].Times != token.MaxTimes || use.Renews != "" {
		t.Errorf("%d nodes, %+v, %v", len(use.Nodes), use.Nodes["worker-1"], err)
	}
	if err := token.Verify(t.Context(), client, whole); err != nil {
		t.Errorf("the token itself: %v", err)
	}
	if err := token.Revoke(t.Context(), client, id); err != nil {
		t.Fatal(err)
	}
	if _, err := token.Find(t.Context(), client, id); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("a revoked token: %v", err)
	}
}

// TestTokenOfOneNodeJoinsNoHost makes a token for a node whose certificate has ended.
func TestTokenOfOneNodeJoinsNoHost(t *testing.T) {
	client := fake.NewClientset()
	whole, err := token.CreateToRenew(t.Context(), client, time.Hour, "", "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(whole, ".")
	filled(t, client, id)
	if use, err := token.Find(t.Context(), client, id); err != nil || use.Renews != "worker-1" {
		t.Errorf("%+v, %v", use, err)
	}
	if err := token.Verify(t.Context(), client, whole); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("the token gets files of the cluster: %v", err)
	}
	for _, row := range []struct{ key, refused string }{{"key", ""}, {"key", ""}, {"another", "has given node worker-1 its certificate"}, {"key", ""}} {
		err := token.Admit(t.Context(), client, id, "worker-1", row.key, time.Now())
		if (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
			t.Errorf("a certificate for %s: %v", row.key, err)
		}
	}
}

func create(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	whole, err := token.Create(t.Context(), client, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(whole, ".")
	filled(t, client, id)
	return whole
}

// filled handles stringData like an API server.
func filled(t *testing.T, client *fake.Clientset, id string) {
	t.Helper()
	secrets := client.CoreV1().Secrets("kube-system")
	s, err := secrets.Get(t.Context(), "bootstrap-token-"+id, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Data = map[string][]byte{}
	for key, text := range s.StringData {
		s.Data[key] = []byte(text)
	}
	if _, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
