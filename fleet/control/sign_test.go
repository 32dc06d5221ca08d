package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
)

// aWork is a work that a user made. An API server stores some of it in another form.
const aWork = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: mine, namespace: oslo}
spec:
  deleteOption: {}
  workload:
    manifests:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: mine, namespace: default, creationTimestamp: null}
      data: {text: %q}
`

// verified returns why condition Verified of the work and its ConfigMap are not as wanted.
func (g *grid) verified(want seal.Reason, text string) string {
	var work ocm.ManifestWork
	if err := g.client.Get(g.Context(), types.NamespacedName{Namespace: "oslo", Name: "mine"}, &work); err != nil {
		return err.Error()
	}
	state := meta.FindStatusCondition(work.Status.Conditions, seal.Verified)
	if state == nil || state.Reason != string(want) || state.ObservedGeneration != work.Generation {
		return fmt.Sprintf("%+v", state)
	}
	o := g.exists("oslo", configMaps, "default", "mine")
	if o == nil {
		return "the ConfigMap is missing"
	}
	if data, _ := o.Object["data"].(map[string]any); data["text"] != text {
		return fmt.Sprintf("the ConfigMap has %v", data)
	}
	return ""
}

// change changes the work behind the back of the hub.
func (g *grid) change(text string, annotation string) {
	g.Helper()
	var work ocm.ManifestWork
	g.must(g.client.Get(g.Context(), types.NamespacedName{Namespace: "oslo", Name: "mine"}, &work))
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{seal.Annotation: annotation}}}
	if text != "" {
		manifest := work.Spec.Workload.Manifests[0]
		manifest["data"] = map[string]any{"text": text}
		patch["spec"] = map[string]any{"workload": map[string]any{"manifests": []any{manifest}}}
	}
	raw, err := json.Marshal(patch)
	g.must(err)
	g.must(g.client.Patch(g.Context(), &work, client.RawPatch(types.MergePatchType, raw)))
}

// TestWorksAreSigned changes a signed work in every way that an attacker in between could, while the hub is stopped, and then
// restores the hub from a backup.
func TestWorksAreSigned(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "oslo")
	wait := func(want seal.Reason, text string) {
		t.Helper()
		g.eventually(string(want), func() string { return g.verified(want, text) })
	}
	annotation := func() string {
		var work ocm.ManifestWork
		g.must(g.client.Get(t.Context(), types.NamespacedName{Namespace: "oslo", Name: "mine"}, &work))
		return work.Annotations[seal.Annotation]
	}
	g.apply(fmt.Sprintf(aWork, "one"))
	wait(seal.Accepted, "one")
	one := annotation()
	backup, err := kubernetes.NewForConfig(g.cfg)
	g.must(err)
	sequence, err := backup.CoreV1().ConfigMaps(hub.DefaultNamespace).Get(t.Context(), "sealift-fleet-sequence", metav1.GetOptions{})
	g.must(err)
	g.apply(fmt.Sprintf(aWork, "two"))
	wait(seal.Accepted, "two")
	two := annotation()
	g.stops["hub"]()

	g.change("three", two)
	wait(seal.Changed, "two")
	g.change("one", one)
	wait(seal.Older, "two")
	g.change("two", "")
	wait(seal.Unsigned, "two")
	g.change("two", two)
	wait(seal.Accepted, "two")
	read, err := seal.Read(two)
	g.must(err)
	elsewhere := read.Statement
	elsewhere.Cluster, elsewhere.Sequence = "rome", 100
	l, err := ledger.Open(g.kube, hub.DefaultNamespace)
	g.must(err)
	key, err := l.Key(t.Context())
	g.must(err)
	forRome, err := elsewhere.Sign(key)
	g.must(err)
	g.change("", forRome)
	wait(seal.OtherCluster, "two")
	g.change("", two)
	wait(seal.Accepted, "two")

	t.Log("the hub is restored from a backup of before the second version")
	now, err := backup.CoreV1().ConfigMaps(hub.DefaultNamespace).Get(t.Context(), sequence.Name, metav1.GetOptions{})
	g.must(err)
	now.Data = sequence.Data
	_, err = backup.CoreV1().ConfigMaps(hub.DefaultNamespace).Update(t.Context(), now, metav1.UpdateOptions{})
	g.must(err)
	g.startHub()
	g.apply(fmt.Sprintf(aWork, "four"))
	wait(seal.HubWentBack, "two")
	g.eventually("the cluster says so", func() string {
		var c ocm.ManagedCluster
		g.must(g.client.Get(t.Context(), types.NamespacedName{Name: "oslo"}, &c))
		if state := meta.FindStatusCondition(c.Status.Conditions, seal.Verified); state == nil || state.Reason != string(seal.HubWentBack) {
			return fmt.Sprintf("%+v", state)
		}
		return ""
	})
	raw := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, seal.ContinueAfter, read.Sequence)
	g.must(g.client.Patch(t.Context(), &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "oslo"}}, client.RawPatch(types.MergePatchType, raw)))
	wait(seal.Accepted, "four")

	t.Log("somebody deletes the work behind the back of the hub")
	four := annotation()
	g.stops["hub"]()
	g.must(g.client.Delete(t.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "oslo", Name: "mine"}}))
	wait(seal.NotDeleted, "four")
	forger, err := signature.Generate()
	g.must(err)
	read, err = seal.Read(four)
	g.must(err)
	tombstone := read.Statement
	tombstone.Sequence, tombstone.Deleted = 1000, true
	forged, err := tombstone.Sign(forger)
	g.must(err)
	g.change("", forged)
	wait(seal.UntrustedKey, "four")
	g.must(g.client.Delete(t.Context(), &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "oslo"}}))
	g.startHub()
	g.eventually("the hub signs the deletion even without the cluster, and the work goes", func() string {
		if err := g.client.Get(t.Context(), types.NamespacedName{Namespace: "oslo", Name: "mine"}, &ocm.ManifestWork{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return g.gone("oslo", "mine")()
	})
	g.stops["hub"]()
	g.apply(fmt.Sprintf(aWork, "four"))
	g.change("", four)
	g.eventually("a deleted work does not come back", func() string {
		if why := g.verified(seal.Older, ""); !strings.Contains(why, "the ConfigMap is missing") {
			return why
		}
		return ""
	})
}
