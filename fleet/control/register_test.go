package control

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ocm"
)

// TestAgentsGetNoRightsOfHub: the API server lets the hub grant all rights that it holds, including that to read its signing key.
func TestAgentsGetNoRightsOfHub(t *testing.T) {
	c := &controllers{hub: &hub.Hub{Namespace: "fleet"}, Options: Options{SecretNamespaces: []string{"authorities"}}}
	for name, tt := range map[string]struct{ namespace, kind, role, want string }{
		"its role in its namespace":       {"fleet", "Role", "sealift-fleet-hub", "singleNamespace.roleRef names sealift-fleet-hub"},
		"another role in its namespace":   {"fleet", "Role", "other", "singleNamespace.namespace is fleet"},
		"a role in a namespace of keys":   {"authorities", "Role", "other", "singleNamespace.namespace is authorities"},
		"its role in a namespace of keys": {"authorities", "Role", "sealift-fleet-hub", "singleNamespace.roleRef names"},
		"its role in any namespace":       {"charts", "Role", "sealift-fleet-hub", "singleNamespace.roleRef names"},
		"its rights in the cluster's":     {"oslo", "ClusterRole", "sealift-fleet-hub-more", "currentCluster.clusterRoleName names sealift-fleet-hub-more"},
		"what a user has made":            {"oslo", "ClusterRole", "reader", ""},
	} {
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace}, RoleRef: rbacv1.RoleRef{Kind: tt.kind, Name: tt.role}}
		err := c.shareable(t.Context(), &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: "oslo"}}, b)
		if (err == nil) != (tt.want == "") || err != nil && (!isRefusal(err) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
