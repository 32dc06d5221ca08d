package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/kube"
)

func manyConfigMaps(prefix string, n int) []string {
	docs := make([]string, n)
	for i := range docs {
		docs[i] = configMapOf(fmt.Sprintf("%s%d", prefix, i), "1")
	}
	return docs
}

// Two engines are two processes: they share nothing but the cluster.
func TestTwoEnginesApplyOneSetAtOnce(t *testing.T) {
	c := newCluster(t)
	other := newRecorder(t)
	docs := append(everyShape(), manyConfigMaps("m", 20)...)
	for round := range 3 {
		objs := c.objects(append(docs, configMapOf(fmt.Sprintf("round%d", round), "1"))...)
		var wait sync.WaitGroup
		var errs [2]error
		for i, engine := range []*kube.Engine{c.Engine, other.Engine} {
			wait.Go(func() { _, errs[i] = engine.Apply(t.Context(), c.set, objs, kube.ApplyOptions{}) })
		}
		wait.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		// Whichever run was last, the set is complete, its record finds all of it, and nothing is left to do.
		result, err := c.Apply(t.Context(), c.set, objs, kube.ApplyOptions{})
		if err != nil || result.Summary() != fmt.Sprintf("%d unchanged", len(objs)) {
			t.Errorf("round %d: %s, %v", round, result.Summary(), err)
		}
	}
	if c.get("v1/configmaps", "round0") != nil {
		t.Error("what left the set is still there")
	}
}

func TestConcurrentSetsDoNotShareObject(t *testing.T) {
	c := newCluster(t)
	other := newRecorder(t)
	docs := manyConfigMaps("m", 50)
	var wait sync.WaitGroup
	var results [2]kube.Result
	for i, engine := range []*kube.Engine{c.Engine, other.Engine} {
		set := kube.Set{Name: fmt.Sprintf("%s-%d", c.set.Name, i)}
		wait.Go(func() { results[i], _ = engine.Apply(t.Context(), set, c.objects(docs...), kube.ApplyOptions{}) })
	}
	wait.Wait()
	for n := range docs {
		name := fmt.Sprintf("m%d", n)
		owner := c.get("v1/configmaps", name).GetLabels()["applyset.kubernetes.io/part-of"]
		for i, result := range results {
			set := kube.Set{Name: fmt.Sprintf("%s-%d", c.set.Name, i)}
			want := kube.Failed
			if owner == set.ID() {
				want = kube.Created
			}
			if got := result.Entries[n].Action; got != want {
				t.Errorf("%s is owned by %s; to set %d it was %s", name, owner, i, got)
			}
		}
	}
}

// The first responses to writes are lost on the way back, although the writes were done.
func TestApplySaysCreatedWhenAnswerWasLost(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	engine := kube.New(connect(t, behind(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		mu.Lock()
		first := r.Method == http.MethodPatch && !seen[r.URL.Path]
		seen[r.URL.Path] = seen[r.URL.Path] || r.Method == http.MethodPatch
		mu.Unlock()
		if first {
			pass.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	})), kube.Options{})
	c.create(configMapOf("theirs", "1"))
	result, err := engine.Apply(t.Context(), c.set, c.objects(configMapOf("a", "1"), webDeployment, configMapOf("theirs", "1")), kube.ApplyOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ConfigMap/a created", "Deployment/web created"}, actions(result)[:2]); diff != "" {
		t.Error(diff)
	}
	if got := result.Entries[2].Action; got == kube.Created {
		t.Error("an object that was there is said to be created")
	}
}

func TestApplyMakesNewObjectsWithOneRequestEach(t *testing.T) {
	c := newCluster(t)
	engine := newRecorder(t)
	if _, err := engine.Apply(t.Context(), c.set, c.objects(manyConfigMaps("m", 30)...), kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	requests := map[string]int{}
	for _, request := range engine.take(http.MethodGet, http.MethodPatch) {
		if strings.Contains(request, "/configmaps/") {
			requests[request]++
		}
	}
	for request, n := range requests {
		if !strings.HasPrefix(request, http.MethodPatch) || n != 1 {
			t.Errorf("%s: %d times", request, n)
		}
	}
	if len(requests) != 30 {
		t.Errorf("%d requests for 30 objects", len(requests))
	}
}

// Objects that existed before are adopted into the set by all rules: its own fields, conflicts, other owners.
func TestApplyAdoptsExistingObjects(t *testing.T) {
	c := newCluster(t)
	c.create(configMapOf("same", "1"))
	c.create(configMapOf("differs", "0"))
	result, err := c.Apply(t.Context(), c.set, c.objects(configMapOf("same", "1"), configMapOf("differs", "1"), configMapOf("new", "1")), kube.ApplyOptions{})
	if _, ok := errors.AsType[*kube.ConflictError](err); !ok {
		t.Errorf("error is %v", err)
	}
	if diff := cmp.Diff([]string{"ConfigMap/same configured", "ConfigMap/differs failed", "ConfigMap/new created"}, actions(result)); diff != "" {
		t.Error(diff)
	}
	if data, _, _ := unstructured.NestedString(c.get("v1/configmaps", "differs").Object, "data", "key"); data != "0" {
		t.Errorf("the value of another manager was replaced by %q", data)
	}
}

func TestApplyTakesOverObjectsOfKOps(t *testing.T) {
	c := newCluster(t)
	force := true
	theirs := c.objects(configMapOf("a", "old"))[0]
	theirs.Object["data"].(map[string]any)["gone"] = "with the new version"
	body, err := theirs.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.resource("v1/configmaps", c.ns).Patch(t.Context(), "a", types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "kops", Force: &force}); err != nil {
		t.Fatal(err)
	}
	c.apply(kube.ApplyOptions{}, configMapOf("a", "new"))
	live := c.get("v1/configmaps", "a")
	data, _, _ := unstructured.NestedStringMap(live.Object, "data")
	if diff := cmp.Diff(map[string]string{"key": "new"}, data); diff != "" {
		t.Error(diff)
	}
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == "kops" {
			t.Errorf("kops still owns %s", entry.FieldsV1)
		}
	}
	if got := c.apply(kube.ApplyOptions{}, configMapOf("a", "new")).Summary(); got != "1 unchanged" {
		t.Errorf("again: %s", got)
	}
}

// Cancelled in the middle, an apply ends at once, reports what it did, prunes nothing, and the next one finishes the work.
func TestCancelledApplyIsFinishedByNextRun(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("leaves", "1"))
	docs := manyConfigMaps("m", 40)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var done atomic.Int32
	result, err := c.Apply(ctx, c.set, c.objects(docs...), kube.ApplyOptions{Progress: func(kube.Entry) {
		if done.Add(1) == 5 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if created, failed := result.Count(kube.Created), result.Count(kube.Failed); created < 5 || created+failed != len(docs) {
		t.Errorf("%d created and %d failed of %d", created, failed, len(docs))
	}
	if c.get("v1/configmaps", "leaves") == nil {
		t.Error("it pruned")
	}
	again := c.apply(kube.ApplyOptions{}, docs...)
	if again.Count(kube.Created)+again.Count(kube.Unchanged) != len(docs) || again.Count(kube.Pruned) != 1 {
		t.Errorf("the next: %s", again.Summary())
	}
}
