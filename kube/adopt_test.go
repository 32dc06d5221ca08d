package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/kube"
)

const setLabel = "applyset.kubernetes.io/part-of"

// otherOwner is an engine that applies under another manager, as channels do.
func otherOwner(t *testing.T, cfg *rest.Config) *kube.Engine {
	t.Helper()
	engine := kube.New(connect(t, cfg), kube.Options{Manager: "kops", TakeOver: []string{kube.Manager, "kubectl-edit"}})
	return engine
}

// withoutDeletes fails the test if a ConfigMap of its namespace is deleted before the returned function is called.
func (c *cluster) withoutDeletes() (stop func()) {
	c.t.Helper()
	w, err := c.resource("v1/configmaps", c.ns).Watch(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if event.Type == watch.Deleted {
				c.t.Errorf("%s was deleted", event.Object.(*unstructured.Unstructured).GetName())
			}
		}
	}()
	return func() { w.Stop(); <-done }
}

// holders counts the ConfigMaps of the test by the set whose label they carry.
func (c *cluster) holders(sets ...kube.Set) []int {
	c.t.Helper()
	list, err := c.resource("v1/configmaps", c.ns).List(c.t.Context(), metav1.ListOptions{LabelSelector: setLabel})
	if err != nil {
		c.t.Fatal(err)
	}
	counts := make([]int, len(sets))
	for i, set := range sets {
		for _, obj := range list.Items {
			if obj.GetLabels()[setLabel] == set.ID() {
				counts[i]++
			}
		}
	}
	return counts
}

func TestAdoptMovesSetAndBack(t *testing.T) {
	c := newCluster(t)
	docs := append(manyConfigMaps("m", 12), webDeployment, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NS}")
	c.apply(kube.ApplyOptions{}, docs...)
	c.update("v1/configmaps", "m3", "kubectl-edit", setField("mine", "data", "key"))
	before := c.get("apps/v1/deployments", "web")
	defer c.withoutDeletes()()

	theirs := kube.Set{Name: "addon-" + c.set.Name, Namespace: "kube-system"}
	channel := otherOwner(t, shared.Config(t))
	for range 2 { // the second time there is nothing left to move
		if err := channel.Adopt(t.Context(), c.set, theirs); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.holders(c.set, theirs); got[0] != 0 || got[1] != 12 {
		t.Errorf("ConfigMaps in either set: %v", got)
	}
	after := c.get("apps/v1/deployments", "web")
	if after.GetUID() != before.GetUID() || after.GetGeneration() != before.GetGeneration() || after.GetLabels()[setLabel] != theirs.ID() {
		t.Errorf("the Deployment is %s, generation %d, labels %v", after.GetUID(), after.GetGeneration(), after.GetLabels())
	}
	for _, f := range after.GetManagedFields() {
		if f.Manager == kube.Manager {
			t.Errorf("%s still has fields: %s", f.Manager, f.FieldsV1)
		}
	}
	if data, _, _ := unstructured.NestedString(c.get("v1/configmaps", "m3").Object, "data", "key"); data != "mine" {
		t.Errorf("an edit became %q: handing over must not apply anything", data)
	}
	if _, err := c.resource("v1/secrets", kube.DefaultNamespace).Get(t.Context(), c.set.Name, metav1.GetOptions{}); err == nil {
		t.Error("the record of the empty set is still there")
	}
	if _, err := c.Apply(t.Context(), c.set, c.objects(docs[0]), kube.ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "belongs to set "+theirs.String()) {
		t.Errorf("the former owner applies again: %v", err)
	}

	// Adopted objects can be pruned, including those that were never applied under the new name.
	result, err := channel.Apply(t.Context(), theirs, c.objects(docs[1:]...), kube.ApplyOptions{Force: true, NoPrune: true})
	if err != nil || result.Count(kube.Created) != 0 {
		t.Fatalf("%s, %v", result.Summary(), err)
	}
	if err := c.Adopt(t.Context(), theirs, c.set); err != nil {
		t.Fatal(err)
	}
	if got := c.holders(c.set, theirs); got[0] != 12 || got[1] != 0 {
		t.Errorf("given back, ConfigMaps in either set: %v", got)
	}
	if again := c.apply(kube.ApplyOptions{}, docs...); again.Count(kube.Created)+again.Count(kube.Pruned) != 0 {
		t.Errorf("afterwards: %s", again.Summary())
	}
	if got := c.apply(kube.ApplyOptions{}, docs...).Summary(); got != fmt.Sprintf("%d unchanged", len(docs)) {
		t.Errorf("at last: %s", got)
	}
}

// The line goes dead at one write after the other: at every moment each object is in one of the two sets, and the same call
// finishes the work.
func TestInterruptedAdoptIsFinishedByNextRun(t *testing.T) {
	c := newCluster(t)
	docs := manyConfigMaps("m", 6)
	theirs := kube.Set{Name: "addon-" + c.set.Name, Namespace: "kube-system"}
	var left atomic.Int32
	left.Store(1 << 30)
	var effect atomic.Bool // of the last write
	line := behind(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method != http.MethodGet {
			switch n := left.Add(-1); {
			case n == 0 && effect.Load():
				pass.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			case n <= 0:
				panic(http.ErrAbortHandler)
			}
		}
		pass.ServeHTTP(w, r)
	})
	defer c.withoutDeletes()()
	killed := 0
	for at := int32(1); ; at++ {
		for _, does := range []bool{false, true} {
			c.apply(kube.ApplyOptions{}, docs...)
			left.Store(at)
			effect.Store(does)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			err := otherOwner(t, line).Adopt(ctx, c.set, theirs)
			cancel()
			if err == nil {
				if killed < 10 {
					t.Errorf("only %d runs were interrupted", killed)
				}
				return
			}
			killed++
			if got := c.holders(c.set, theirs); got[0]+got[1] != len(docs) {
				t.Errorf("after write %d: %v", at, got)
			}
			if err := otherOwner(t, shared.Config(t)).Adopt(t.Context(), c.set, theirs); err != nil {
				t.Fatalf("after write %d: %v", at, err)
			}
			if got := c.holders(c.set, theirs); got[1] != len(docs) {
				t.Errorf("finished after write %d: %v", at, got)
			}
			if err := c.Adopt(t.Context(), theirs, c.set); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAdoptLeavesForeignObjectsAlone(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("ours", "1"))
	theirs := kube.Set{Name: "theirs-" + c.set.Name}
	// An ApplySet of kubectl: the same label, another tool.
	c.create(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s, labels: {applyset.kubernetes.io/id: %s}, annotations: {applyset.kubernetes.io/tooling: kubectl/v1.36, applyset.kubernetes.io/contains-group-kinds: ConfigMap}}",
		theirs.Name, kube.DefaultNamespace, theirs.ID()))
	c.create(labelledMap("stranger", setLabel+": "+theirs.ID()))
	if err := c.Adopt(t.Context(), theirs, c.set); err == nil || !strings.Contains(err.Error(), `belongs to "kubectl/v1.36"`) {
		t.Errorf("adopting another tool's set: %v", err)
	}
	// A copy of the label that no apply made, as controllers make them.
	c.create(labelledMap("copied", setLabel+": "+c.set.ID()))
	if err := c.Adopt(t.Context(), c.set, kube.Set{Name: "next-" + c.set.Name}); err != nil {
		t.Fatal(err)
	}
	if got := c.holders(theirs, c.set, kube.Set{Name: "next-" + c.set.Name}); fmt.Sprint(got) != "[1 1 1]" {
		t.Errorf("members of the stranger, of the copy and of the new set: %v", got)
	}
	if err := c.Adopt(t.Context(), kube.Set{Name: "never-was"}, c.set); err != nil {
		t.Errorf("a set that does not exist: %v", err)
	}
	var none types.UID
	if c.get("v1/configmaps", "stranger").GetUID() == none {
		t.Error("the stranger's object is gone")
	}
}
