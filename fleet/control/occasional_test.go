package control_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/view"
)

// TestOccasionalClusterReconnects lets one of two clusters sleep through a rollout, and reconnect twice for a moment.
func TestOccasionalClusterReconnects(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "oslo", "rome")
	mark := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}},"spec":{"leaseDurationSeconds":1}}`, inventory.Occasional)
	g.must(g.client.Patch(t.Context(), &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}, client.RawPatch(types.MergePatchType, mark)))
	// no group is mandatory: the first one would wait for rome
	g.apply(carried(t) + "---" + fmt.Sprintf(config, "1"))
	for _, cluster := range []string{"oslo", "rome"} {
		g.eventually(cluster+" is deployed", func() string { return g.ready(cluster, "default", "hello", 1) })
		g.eventually(cluster+" is complete", func() string { return g.has(cluster, "hello", "Progressing", "False/Completed") })
	}
	sleep := func() {
		g.stops["rome"]()
		g.eventually("rome sleeps", func() string {
			var c ocm.ManagedCluster
			g.must(g.client.Get(t.Context(), types.NamespacedName{Name: "rome"}, &c))
			if len(c.Spec.Taints) > 0 {
				t.Fatalf("rome has taints %v", c.Spec.Taints)
			}
			if !inventory.IsAsleep(&c) {
				return fmt.Sprint(meta.FindStatusCondition(c.Status.Conditions, inventory.Available))
			}
			return ""
		})
	}
	sleep()

	t.Log("one cluster at a time, and the rollout goes past rome")
	g.apply(fmt.Sprintf(config, "2"))
	g.eventually("oslo has 2", func() string {
		if got := g.image("oslo"); got != "example.com/hello:2" {
			return got
		}
		return ""
	})
	g.eventually("oslo is deployed", func() string { return g.ready("oslo", "default", "hello", 1) })
	g.eventually("oslo is complete", func() string { return g.has("oslo", "hello", "Progressing", "False/Completed") })
	if got := g.image("rome"); got != "example.com/hello:1" {
		t.Errorf("rome lost what it had: %s", got)
	}
	v := view.View{Reader: inventory.Reader{Reader: g.client, Mapper: g.client.RESTMapper()}, Namespace: hub.DefaultNamespace, Now: time.Now}
	one, err := v.AddOn(t.Context(), "hello")
	g.must(err)
	for _, row := range one.Rows {
		if row.Skipped != (row.Cluster == "rome") || time.Since(row.LastSeen) > 5*time.Minute {
			t.Errorf("%+v", row)
		}
	}

	t.Log("it gets the change in the first moment, and reports in the second")
	g.startAgent("rome")
	g.eventually("rome has 2", func() string {
		if got := g.image("rome"); got != "example.com/hello:2" {
			return got
		}
		return ""
	})
	sleep()
	if why := g.has("rome", "hello", "Configured", "True/ConfigurationsConfigured"); why != "" {
		t.Error(why)
	}
	g.eventually("rome is deployed", func() string { return g.ready("rome", "default", "hello", 1) })
	g.startAgent("rome")
	g.eventually("the rollout ends", func() string {
		var a ocm.ClusterManagementAddOn
		g.must(g.client.Get(t.Context(), types.NamespacedName{Name: "hello"}, &a))
		if p := a.Status.InstallProgressions; len(p) != 1 || !meta.IsStatusConditionFalse(p[0].Conditions, "Progressing") {
			return fmt.Sprintf("%+v", p)
		}
		return g.has("rome", "hello", "Progressing", "False/Completed")
	})
}
