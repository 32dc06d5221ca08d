package token_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

func TestTokensAreStoredInCluster(t *testing.T) {
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	create := func(ttl time.Duration) string {
		whole, err := token.Create(t.Context(), client, ttl, "for a test")
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
	good, late, revoked := create(time.Hour), create(-time.Second), create(time.Hour)
	if err := token.Revoke(t.Context(), client, revoked); err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(good, ".")
	for name, row := range map[string]struct {
		token string
		want  error
	}{
		"one that was made":      {good, nil},
		"one that has expired":   {late, token.ErrUnknown},
		"one that was revoked":   {revoked, token.ErrUnknown},
		"another secret":         {id + ".0123456789abcdef", token.ErrUnknown},
		"its id alone":           {id, token.ErrUnknown},
		"nothing":                {"", token.ErrUnknown},
		"what is not a token":    {"../../x", token.ErrUnknown},
		"the name of the Secret": {"bootstrap-token-" + id, token.ErrUnknown},
	} {
		if err := token.Verify(t.Context(), client, row.token); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %v", name, err, row.want)
		}
	}
	list, err := token.List(t.Context(), client)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, one := range list {
		if one.Usable != (one.ID == id) || one.Expires.IsZero() || one.Description != "for a test" {
			t.Errorf("listed as %+v", one)
		}
	}
	text, err := json.Marshal(list)
	if err != nil || strings.Contains(string(text), strings.TrimPrefix(good, id+".")) {
		t.Errorf("the list shows a secret: %s, %v", text, err)
	}
	if err := token.Revoke(t.Context(), client, revoked); err == nil || !strings.Contains(err.Error(), "there is no token") {
		t.Errorf("revoked twice: %v", err)
	}
	if err := token.Revoke(t.Context(), client, "kubeadm-certs"); err == nil || !strings.Contains(err.Error(), "not the id") {
		t.Errorf("revoke of another Secret: %v", err)
	}
	if err := token.Revoke(t.Context(), client, revoked, good); err == nil || token.Verify(t.Context(), client, good) == nil {
		t.Errorf("behind one that is gone, a token stays valid: %v", err)
	}
}

func TestSigningOnlyTokenDoesNotJoin(t *testing.T) {
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := token.Create(t.Context(), client, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(whole, ".")
	secrets := client.CoreV1().Secrets(metav1.NamespaceSystem)
	s, err := secrets.Get(t.Context(), "bootstrap-token-"+id, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(s.Data, "usage-bootstrap-authentication")
	if _, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := token.Verify(t.Context(), client, whole); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}
