// Package hubsetup prepares API servers for tests of the fleet: with the rights of a hub, and with its definitions.
package hubsetup

import (
	"context"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

// Rights grants a hub the rights of registration.Hub and no others, and returns the configuration with which to run it. The
// namespaces are made.
func Rights(t testing.TB, admin *rest.Config, h registration.Hub) *rest.Config {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, ns := range h.SecretNamespaces {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}})
	}
	for _, o := range h.Objects() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		if content["rules"] == nil {
			delete(content, "rules")
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	cluster, err := kube.Connect(admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := kube.Set{Name: "rights-of-a-hub", Namespace: metav1.NamespaceDefault}
	if _, err := kube.New(cluster, kube.Options{}).Apply(t.Context(), set, objects, kube.ApplyOptions{FailFast: true}); err != nil {
		t.Fatalf("give a hub its rights: %v", err)
	}
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + h.Namespace + ":" + registration.HubAccount, Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	for _, o := range h.Objects() {
		switch role := o.(type) {
		case *rbacv1.ClusterRole:
			known(t, cfg, h.Namespace, role.Rules)
		case *rbacv1.Role:
			known(t, cfg, role.Namespace, role.Rules)
		}
	}
	return cfg
}

// known waits until the API server grants the written rights, which it learns from its watches.
func known(t testing.TB, cfg *rest.Config, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	client, err := authorizationv1client.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	question := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	var answer *authorizationv1.SelfSubjectRulesReview
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = poll.Until(bounded, 50*time.Millisecond, nil, func(ctx context.Context) (bool, error) {
		if answer, err = client.SelfSubjectRulesReviews().Create(ctx, question, metav1.CreateOptions{}); err != nil {
			return false, err
		}
		for _, rule := range rules {
			granted := func(g authorizationv1.ResourceRule) bool {
				return slices.Equal(g.Verbs, rule.Verbs) && slices.Equal(g.APIGroups, rule.APIGroups) &&
					slices.Equal(g.Resources, rule.Resources) && slices.Equal(g.ResourceNames, rule.ResourceNames)
			}
			if len(rule.Resources) > 0 && !slices.ContainsFunc(answer.Status.ResourceRules, granted) {
				return false, nil
			}
		}
		return answer.Status.EvaluationError == "", nil
	})
	if err != nil {
		t.Fatalf("the rights of a hub in namespace %s: %v; the API server says %+v", namespace, err, answer)
	}
}

// Define applies the definitions of a hub, for tests that run no hub, and waits until they are served. No conversion happens: a
// kind is served as stored.
func Define(t testing.TB, cluster *kube.Cluster) {
	t.Helper()
	definitions, err := crd.Hub(crd.Conversion{URL: "https://127.0.0.1:1/convert"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.New(cluster, kube.Options{}).Apply(t.Context(), kube.Set{Name: "definitions"}, definitions, kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
}
