package join_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/fleet/crd/crdtest"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/testgrid/controlplane"
)

// TestJoiningAgainKeepsAllElse joins a carried cluster again, as somebody does who needs a new token.
func TestJoiningAgainKeepsAllElse(t *testing.T) {
	t.Parallel()
	hub, err := kube.Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	crdtest.Define(t, hub)
	var keys []string
	for _, c := range []join.Cluster{
		{Name: "ship", Labels: map[string]string{"region": "north", "tier": "1"}, Annotations: map[string]string{"fleet.sealift.dev/carried": "true"}},
		{Name: "ship", Labels: map[string]string{"tier": "2"}},
	} {
		if _, err := join.Hub(t.Context(), hub, c); err != nil {
			t.Fatal(err)
		}
		live, err := hub.Dynamic().Resource(ocm.ClusterVersion.WithResource("managedclusters")).Get(t.Context(), "ship", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if l, a := live.GetLabels(), live.GetAnnotations(); l["region"] != "north" || l["tier"] != c.Labels["tier"] || a["fleet.sealift.dev/carried"] != "true" {
			t.Errorf("labels %v, annotations %v", l, a)
		}
		keys = append(keys, live.GetAnnotations()[join.AgentKey])
	}
	if keys[0] == "" || keys[0] == keys[1] {
		t.Errorf("the keys of the agent are %q", keys)
	}
}
