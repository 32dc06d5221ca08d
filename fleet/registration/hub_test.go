package registration_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sealift/sealift/fleet/registration"
)

// TestHubLacksUnneededRights shows what a hub must not be able to do. That it can do its work is shown by the tests of
// packages control and proxy, whose hubs have these rights only.
func TestHubLacksUnneededRights(t *testing.T) {
	objects := registration.Hub{Namespace: "fleet", SecretNamespaces: []string{"charts", "charts"}, Signers: []string{"example.com/*"}}.Objects()
	namespaces := []string{}
	for _, o := range objects {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			for _, r := range o.Rules {
				if slices.Contains(append(append(slices.Clone(r.Verbs), r.Resources...), r.APIGroups...), "*") {
					t.Errorf("%s has a wildcard: %+v", o.Name, r)
				}
				for _, forbidden := range []string{"secrets", "configmaps", "roles", "clusterroles", "clusterrolebindings", "pods", "pods/exec", "nodes", "serviceaccounts/token", "users"} {
					if slices.Contains(r.Resources, forbidden) {
						t.Errorf("%s has %s in all namespaces", o.Name, forbidden)
					}
				}
				for _, forbidden := range []string{"bind", "escalate", "impersonate"} {
					if slices.Contains(r.Verbs, forbidden) {
						t.Errorf("%s may %s", o.Name, forbidden)
					}
				}
				if slices.Contains(r.Resources, "signers") && len(r.ResourceNames) == 0 {
					t.Errorf("%s approves for all signers", o.Name)
				}
			}
		case *rbacv1.Role:
			namespaces = append(namespaces, o.Namespace)
			if o.Namespace != "fleet" && (len(o.Rules) != 1 || !slices.Equal(o.Rules[0].Verbs, []string{"get"})) {
				t.Errorf("in %s the hub may %+v", o.Namespace, o.Rules)
			}
		}
	}
	if !slices.Equal(namespaces, []string{"charts", "fleet"}) {
		t.Errorf("the hub has rights of its own in %q", namespaces)
	}
}
