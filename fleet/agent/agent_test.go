package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/hubsetup"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// cluster is an API server that is a hub and its only cluster.
type cluster struct {
	*testing.T
	client.Client
	config *rest.Config
	local  *rest.Config // how the agent reaches its cluster
	former []string     // addresses of the hub
	images *road
	stop   func() // the agent
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	c := &cluster{T: t, config: controlplane.ForTest(t)}
	c.local = c.config
	c.must(errors.Join(ocm.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	k, err := kube.Connect(c.config, nil)
	c.must(err)
	hubsetup.Define(t, k)
	_, err = join.Hub(t.Context(), k, join.Cluster{Name: "rome"})
	c.must(err)
	c.Client, err = client.New(c.config, client.Options{Scheme: scheme})
	c.must(err)
	c.images = newRoad(c)
	c.start()
	return c
}

// start starts an agent. It is stopped when the test ends, or by stop.
func (c *cluster) start() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Options{Hub: c.config, Local: c.local, Cluster: "rome", Unsigned: true, FormerHubs: c.former, Look: 100 * time.Millisecond, Repair: 300 * time.Millisecond, Heartbeat: 100 * time.Millisecond,
			Content: &agent.Content{Store: &packages.Source{Store: c.images}, Folder: c.images.folder, Images: c.images, Timeout: 5 * time.Second}})
	}()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.Error(err)
		}
	})
	c.Cleanup(c.stop)
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) apply(text string) {
	c.Helper()
	objects, err := render.Decode(strings.NewReader(text))
	c.must(err)
	for _, o := range objects {
		c.must(c.Patch(c.Context(), o, client.Apply, client.ForceOwnership, client.FieldOwner("user"))) //nolint:staticcheck // an object without a type
	}
}

// configMap returns the data of a ConfigMap, or nil.
func (c *cluster) configMap(name string) map[string]any {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	if c.Get(c.Context(), types.NamespacedName{Namespace: "default", Name: name}, o) != nil {
		return nil
	}
	data, _ := o.Object["data"].(map[string]any)
	return data
}

func (c *cluster) eventually(what string, holds func() bool) {
	c.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	var work ocm.ManifestWork
	_ = c.Get(c.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &work)
	text, _ := json.MarshalIndent(work.Status, "", " ")
	c.Fatalf("after half a minute: %s\n%s", what, text)
}

const work = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: rome}
spec:
  deleteOption:
    propagationPolicy: SelectivelyOrphan
    selectivelyOrphans: {orphaningRules: [{resource: configmaps, namespace: default, name: stays}]}
  manifestConfigs:
  - resourceIdentifier: {resource: configmaps, namespace: default, name: theirs}
    updateStrategy: {type: CreateOnly}
  - resourceIdentifier: {resource: configmaps, namespace: default, name: looked-at}
    updateStrategy: {type: ReadOnly}
    feedbackRules: [{type: JSONPaths, jsonPaths: [{name: color, path: .data.color}, {name: all, path: .data}]}]
  - resourceIdentifier: {resource: configmaps, namespace: default, name: shared}
    updateStrategy:
      type: ServerSideApply
      serverSideApply: {fieldManager: work-agent-mine, force: true, ignoreFields: [{condition: OnSpokeChange, jsonPointers: [/data/size]}]}
  - resourceIdentifier: {resource: configmaps, namespace: default, name: judged}
    conditionRules: [{type: CEL, condition: Ready, celExpressions: ["object.metadata.name == 'judged'"], messageExpression: "object.metadata.name + ' is fine'"}]
  - resourceIdentifier: {group: rbac.authorization.k8s.io, resource: clusterroles, name: 'w*e'}
    feedbackRules: [{type: JSONPaths, jsonPaths: [{name: verbs, path: '.rules[*].verbs[0]'}]}]
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: default}, data: {color: VALUE}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: stays, namespace: default}, data: {color: VALUE}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: default}, data: {color: VALUE}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: looked-at, namespace: default}, data: {color: VALUE}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: shared, namespace: default}, data: {color: VALUE, size: VALUE}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: Not_A_Name, namespace: default}}
    - {apiVersion: nowhere.example.com/v1, kind: Nothing, metadata: {name: nothing, namespace: default}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: judged, namespace: default}}
    - apiVersion: rbac.authorization.k8s.io/v1
      kind: ClusterRole
      metadata: {name: wide, namespace: default}
      rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {apiGroups: [""], resources: [nodes], verbs: [list]}]
`

// TestWorkIsApplied has one work with every update strategy, three manifests that fail, and an object that stays.
func TestWorkIsApplied(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: theirs, namespace: default}
data: {color: theirs}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: looked-at, namespace: default}
data: {color: blue}
`)
	c.apply(strings.ReplaceAll(work, "VALUE", "one"))
	status := func() (s ocm.ManifestWorkStatus) {
		var w ocm.ManifestWork
		if c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &w) == nil {
			s = w.Status
		}
		return s
	}
	c.eventually("the manifests that can be applied are", func() bool {
		return c.configMap("plain")["color"] == "one" && c.configMap("stays") != nil && c.configMap("shared")["size"] == "one" && len(status().ResourceStatus.Manifests) == 9
	})
	if got := c.configMap("theirs")["color"]; got != "theirs" {
		t.Errorf("an object that is only to be created has %v", got)
	}
	if got := c.configMap("looked-at")["color"]; got != "blue" {
		t.Errorf("an object that is only to be read has %v", got)
	}
	s := status()
	var failed []string
	for _, m := range s.ResourceStatus.Manifests {
		if !meta.IsStatusConditionTrue(m.Conditions, "Applied") {
			failed = append(failed, m.ResourceMeta.Name)
		}
	}
	applied := meta.FindStatusCondition(s.Conditions, "Applied")
	if strings.Join(failed, " ") != "Not_A_Name nothing" || applied.Status != metav1.ConditionFalse || !strings.Contains(applied.Message, "Nothing") {
		t.Errorf("failed: %v, %+v", failed, applied)
	}
	if c := meta.FindStatusCondition(s.ResourceStatus.Manifests[6].Conditions, "Available"); c == nil || c.Status != metav1.ConditionUnknown || c.Reason != "IncompletedResourceMeta" {
		t.Errorf("an object of an unknown kind is %+v", c)
	}
	ready := meta.FindStatusCondition(s.Conditions, "Ready")
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason != "ConditionRulesAggregated" || ready.Message != "judged is fine" {
		t.Errorf("the condition that a rule sets is %+v", ready)
	}
	values := s.ResourceStatus.Manifests[3].StatusFeedback.Values
	if len(values) != 2 || *values[0].FieldValue.String != "blue" || *values[1].FieldValue.JSON != `{"color":"blue"}` {
		t.Errorf("feedback: %+v", values)
	}
	wide := s.ResourceStatus.Manifests[8]
	if values := wide.StatusFeedback.Values; wide.ResourceMeta.Namespace != "" || len(values) != 1 || *values[0].FieldValue.JSON != `["get","list"]` {
		t.Errorf("an object without a namespace has %+v", wide)
	}

	t.Log("what was changed on the cluster is repaired, but for the ignored field")
	c.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: default}\ndata: {color: changed}\n")
	c.eventually("drift is repaired", func() bool {
		if c.configMap("shared")["size"] != "changed" { // a change between a read and a write of the agent is lost
			c.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, namespace: default}\ndata: {color: changed, size: changed}\n")
			return false
		}
		return c.configMap("plain")["color"] == "one" && c.configMap("shared")["color"] == "one"
	})
	c.apply(strings.ReplaceAll(work, "VALUE", "two"))
	c.eventually("the new content is applied", func() bool {
		return c.configMap("plain")["color"] == "two" && c.configMap("shared")["color"] == "two"
	})
	if got := c.configMap("shared")["size"]; got != "changed" {
		t.Errorf("the ignored field is %v", got)
	}

	t.Log("images come before the work that names them")
	c.imagesComeFirst()
	t.Log("the work is deleted")
	c.must(c.Delete(t.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "w"}}))
	c.eventually("its objects go", func() bool {
		err := c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "w"}, &ocm.ManifestWork{})
		return client.IgnoreNotFound(err) == nil && err != nil && c.configMap("plain") == nil && c.configMap("shared") == nil
	})
	for _, name := range []string{"stays", "theirs", "looked-at"} {
		if c.configMap(name) == nil {
			t.Errorf("%s is gone", name)
		}
	}
	var records ocm.List[ocm.AppliedManifestWork]
	if err := c.List(t.Context(), &records); err != nil || len(records.Items) > 0 {
		t.Errorf("records that are left: %v %v", records.Items, err)
	}
}

// TestFailedAddOnDoesNotStopOthers uses an add-on whose Lease cannot be read, and another one.
func TestFailedAddOnDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	bad := &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "a"}, Spec: ocm.ManagedClusterAddOnSpec{InstallNamespace: "default"}}
	c.must(c.Create(t.Context(), bad))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"namespace": "no/namespace"}}`))
	c.must(c.Status().Patch(t.Context(), bad, patch))
	c.must(c.Create(t.Context(), &ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "b"}, Spec: ocm.ManagedClusterAddOnSpec{InstallNamespace: "default"}}))
	c.eventually("the other one is reported", func() bool {
		var addOn ocm.ManagedClusterAddOn
		err := c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "b"}, &addOn)
		return err == nil && meta.FindStatusCondition(addOn.Status.Conditions, "Available") != nil
	})
}

// TestWorkStaysUntilItsObjectsAreDeleted uses a cluster that cannot list its kinds while a work is deleted.
func TestWorkStaysUntilItsObjectsAreDeleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.apply(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: rome}
spec:
  manifestConfigs:
  - {resourceIdentifier: {group: scheduling.k8s.io, resource: priorityclasses, name: mine}, updateStrategy: {type: CreateOnly}}
  workload: {manifests: [{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: mine}, value: 1}]}
`)
	mine := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}}
	find := func(name string, o client.Object) bool {
		return c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: name}, o) == nil
	}
	c.eventually("it is applied", func() bool {
		return c.isApplied("w") && c.Get(t.Context(), types.NamespacedName{Name: "mine"}, mine) == nil
	})
	c.stop()
	var broken atomic.Bool
	var asked atomic.Int32
	broken.Store(true)
	c.local = controlplane.Through(t, c.config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.URL.Path == "/apis/scheduling.k8s.io/v1" && broken.Load() {
			asked.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		pass.ServeHTTP(w, r)
	})
	c.must(c.Delete(t.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "w"}}))
	c.start()
	c.eventually("the agent has tried it", func() bool { return asked.Load() > 2 })
	if !find("w", new(ocm.ManifestWork)) {
		t.Error("the work went before its object")
	}
	broken.Store(false)
	c.eventually("the object goes, and then the work", func() bool {
		return !find("w", new(ocm.ManifestWork)) && c.Get(t.Context(), types.NamespacedName{Name: "mine"}, mine) != nil
	})
}

// TestChangedStrategyDeletesNothing changes how objects of a work are updated. Only what leaves the work is deleted.
func TestChangedStrategyDeletesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	strategies := map[string]string{
		"default":     "{type: Update}",
		"create-only": "{type: CreateOnly}",
		"read-only":   "{type: ReadOnly}",
		"other":       "{type: ServerSideApply, serverSideApply: {fieldManager: work-agent-other, force: true}}",
		"polite":      "{type: ServerSideApply}",
	}
	// each object begins with the strategy of its name; rounds of strategies follow
	names := slices.Sorted(maps.Keys(strategies))
	work := func(value string, of func(n int) string, names ...string) {
		text := "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata: {name: moves, namespace: rome}\nspec:\n  manifestConfigs:\n"
		for n, name := range names {
			text += fmt.Sprintf("  - {resourceIdentifier: {group: '', resource: configmaps, name: %s, namespace: default}, updateStrategy: %s}\n", name, strategies[of(n)])
		}
		text += "  workload:\n    manifests:\n"
		for _, name := range names {
			text += fmt.Sprintf("    - {apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default}, data: {value: %q}}\n", name, value)
		}
		c.apply(text)
	}
	uid := func(name string) types.UID {
		var m corev1.ConfigMap
		if c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &m) != nil {
			return ""
		}
		return m.UID
	}
	isApplied := func() bool {
		var w ocm.ManifestWork
		applied := c.applied("moves")
		return applied != nil && applied.Status == metav1.ConditionTrue && c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "moves"}, &w) == nil && applied.ObservedGeneration == w.Generation
	}
	c.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: read-only, namespace: default}\n")
	work("same", func(n int) string { return names[n] }, names...)
	before := map[string]types.UID{}
	c.eventually("the work is applied", func() bool {
		for _, name := range names {
			before[name] = uid(name)
		}
		return !slices.Contains(slices.Collect(maps.Values(before)), "") && isApplied()
	})
	for round := 1; round <= len(names); round++ {
		gone := fmt.Sprintf("gone-%d", round)
		all := append(slices.Clone(names), gone)
		work("same", func(n int) string { return names[(n+round)%len(names)] }, all...)
		c.eventually("the work is applied with other strategies", func() bool {
			return isApplied() && (uid(gone) != "" || names[(len(names)+round)%len(names)] == "read-only")
		})
		work("same", func(n int) string { return names[(n+round+1)%len(names)] }, names...)
		c.eventually("what left the work is deleted", func() bool { return isApplied() && uid(gone) == "" })
		for _, name := range names {
			if got := uid(name); got != before[name] {
				t.Fatalf("round %d: %s has the UID %q, had %q", round, name, got, before[name])
			}
		}
	}
	work("same", func(int) string { return "default" }, names[0])
	c.eventually("the others are deleted", func() bool { return isApplied() && uid("other") == "" && uid("default") == "" })
	if uid("polite") == "" {
		t.Error("an object that was only read is deleted")
	}
	was := uid(names[0])
	work("changed", func(int) string { return "create-only" }, names[0])
	c.eventually("the work is applied, and its object is only to be created", isApplied)
	if got := c.configMap(names[0])["value"]; got != "same" || uid(names[0]) != was {
		t.Errorf("an object that is only to be created has %v", got)
	}
	c.must(c.Delete(t.Context(), &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "moves"}}))
	c.eventually("the work goes with its objects and its sets", func() bool {
		err := c.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "moves"}, &ocm.ManifestWork{})
		var sets corev1.SecretList
		c.must(c.List(t.Context(), &sets, client.InNamespace(agent.Namespace)))
		left := slices.DeleteFunc(sets.Items, func(s corev1.Secret) bool { return !strings.HasPrefix(s.Name, "work.moves") })
		return err != nil && uid(names[0]) == "" && len(left) == 0
	})
}
