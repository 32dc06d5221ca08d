package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/hubsetup"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/kube/render"
)

// runHub runs a hub until the test ends, and returns when it serves its definitions.
func runHub(t *testing.T, cfg *rest.Config, o hub.Options) dynamic.Interface {
	t.Helper()
	o.Config, o.Webhook.Listen = cfg, "127.0.0.1:0"
	ready := make(chan struct{})
	o.Controllers = append(o.Controllers, func(context.Context, *hub.Hub) error {
		close(ready)
		return nil
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the hub ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the hub does not end")
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the hub ended with %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the hub is not ready after two minutes")
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func addOns(version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: version, Resource: resource}
}

// TestHub runs a hub on a real API server.
func TestHub(t *testing.T) {
	t.Parallel()
	cfg := controlplane.ForTest(t)
	client := runHub(t, cfg, hub.Options{})
	t.Run("samples apply unmodified", func(t *testing.T) { samplesApply(t, client) })
	t.Run("the examples of the seed apply unmodified", func(t *testing.T) { examplesApply(t, client) })
	t.Run("two versions lose nothing in 200 round trips", func(t *testing.T) { roundTrips(t, client) })
	t.Run("a second hub finds the authority of the first", func(t *testing.T) {
		secrets := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(hub.DefaultNamespace)
		before, err := secrets.Get(t.Context(), "sealift-fleet-webhook-ca", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		runHub(t, cfg, hub.Options{})
		after, err := secrets.Get(t.Context(), "sealift-fleet-webhook-ca", metav1.GetOptions{})
		if err != nil || !reflect.DeepEqual(before.Object["data"], after.Object["data"]) {
			t.Errorf("%v, and the authority changed", err)
		}
		if _, err := client.Resource(addOns("v1beta1", "clustermanagementaddons")).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("after the second hub took the conversion over: %v", err)
		}
	})
	t.Run("a hub with the rights of an older version names the way out", func(t *testing.T) { olderRights(t, cfg, client) })
}

// olderRights runs a hub that may not write admission policies.
func olderRights(t *testing.T, cfg *rest.Config, client dynamic.Interface) {
	mine := hubsetup.Rights(t, cfg, registration.Hub{Namespace: hub.DefaultNamespace})
	roles := client.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
	list, err := roles.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range list.Items {
		rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
		left := slices.DeleteFunc(slices.Clone(rules), func(rule any) bool {
			return strings.Contains(fmt.Sprint(rule), "validatingadmissionpolicies") && strings.HasPrefix(role.GetName(), "sealift")
		})
		if len(left) == len(rules) {
			continue
		}
		role.Object["rules"] = left
		if _, err := roles.Update(t.Context(), &role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 { // the API server needs a moment to know it
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err = hub.Run(ctx, hub.Options{Config: mine, Webhook: hub.Webhook{Listen: "127.0.0.1:0"}})
		cancel()
		if err != nil && strings.Contains(err.Error(), "validatingadmissionpolicies") && strings.Contains(err.Error(), "sealift fleet hub --print-rbac") {
			return
		}
	}
	t.Errorf("the hub says %v", err)
}

// TestWatchesLast uses a hub whose requests may take five seconds. Its watches continue.
func TestWatchesLast(t *testing.T) {
	t.Parallel()
	var watches atomic.Int32
	cfg := controlplane.Through(t, controlplane.ForTest(t), func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/managedclusters") && r.URL.Query().Get("watch") == "true" {
			watches.Add(1)
		}
		pass.ServeHTTP(w, r)
	})
	cfg.Timeout = 5 * time.Second
	runHub(t, cfg, hub.Options{Controllers: []hub.Controller{func(ctx context.Context, h *hub.Hub) error {
		_, err := h.GetCache().GetInformer(ctx, &ocm.ManagedCluster{}, cache.BlockUntilSynced(false))
		return err
	}}})
	for deadline := time.Now().Add(time.Minute); watches.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	var before, after int32
	for range 10 { // the API server ends watches of a definition that it has just got
		before = watches.Load()
		time.Sleep(cfg.Timeout + time.Second)
		if after = watches.Load(); before > 0 && after == before {
			return
		}
	}
	t.Errorf("the hub began %d watches, and %d more in %s", before, after-before, cfg.Timeout)
}

// TestHubEndsWhileItsCachesWait uses an API server that does not answer when the hub fills its caches.
func TestHubEndsWhileItsCachesWait(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	cfg := controlplane.Through(t, controlplane.ForTest(t), func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/managedclusters") {
			pass.ServeHTTP(w, r)
			return
		}
		ask()
		<-r.Context().Done()
	})
	runHub(t, cfg, hub.Options{Controllers: []hub.Controller{func(ctx context.Context, h *hub.Hub) error {
		_, err := h.GetCache().GetInformer(ctx, &ocm.ManagedCluster{}, cache.BlockUntilSynced(false))
		return err
	}}})
	select {
	case <-asked: // runHub ends the hub
	case <-time.After(time.Minute):
		t.Fatal("the hub fills no cache")
	}
}

// resources are the kinds of the samples.
var resources = map[string]schema.GroupVersionResource{
	"AddOnTemplate":          addOns("v1alpha1", "addontemplates"),
	"ClusterManagementAddOn": addOns("v1alpha1", "clustermanagementaddons"),
	"HelmChartProxy":         {Group: "addons.cluster.x-k8s.io", Version: "v1alpha1", Resource: "helmchartproxies"},
}

func samplesApply(t *testing.T, client dynamic.Interface) {
	found, err := filepath.Glob(filepath.Join(upstreamcases.Path(t, "fleet/samples"), "*/*.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := render.Decode(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			at := client.Resource(resources[o.GetKind()])
			var on dynamic.ResourceInterface = at
			if o.GetKind() == "HelmChartProxy" {
				on = at.Namespace("default")
			}
			got, err := on.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: "Strict"})
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
				continue
			}
			if o.GetKind() == "AddOnTemplate" && !reflect.DeepEqual(o.Object["spec"], got.Object["spec"]) {
				t.Errorf("%s: the template became %v", filepath.Base(file), got.Object["spec"])
			}
		}
	}
	t.Logf("%d files applied", len(found))
}

// examplesApply applies the examples of the document that the fleet started from, in sequence. Some show a status.
func examplesApply(t *testing.T, client dynamic.Interface) {
	text, err := os.ReadFile(upstreamcases.Path(t, "../reference/seeds/001_329330174324fe94.txt"))
	if err != nil {
		t.Fatal(err)
	}
	cluster := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "cluster1"}}}
	if _, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), cluster, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	applied, statuses := 0, 0
	for block := range strings.SplitSeq(string(text), "\n\n") {
		for i, example := range strings.Split("\n"+block, "\napiVersion:") {
			if i == 0 {
				continue
			}
			content := make(map[string]any)
			example = "apiVersion:" + strings.ReplaceAll(example, "\n...", "") // omitted in the document
			if err := yaml.Unmarshal([]byte(example), &content); err != nil {
				t.Fatalf("%v\n%s", err, example)
			}
			if content["spec"] == nil {
				delete(content, "spec")
			}
			o := &unstructured.Unstructured{Object: content}
			on := client.Resource(exampleKinds[o.GetKind()]).Namespace(o.GetNamespace())
			options := metav1.PatchOptions{FieldManager: "reader", FieldValidation: "Strict", Force: new(true)}
			body, err := o.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			var subresources []string
			if content["status"] != nil {
				subresources = []string{"status"}
				statuses++
			}
			got, err := on.Patch(t.Context(), o.GetName(), types.ApplyPatchType, body, options, subresources...)
			if err != nil {
				t.Errorf("%v\n%s", err, example)
				continue
			}
			applied++
			for _, field := range []string{"spec", "status"} {
				if want := content[field]; want != nil && !holds(got.Object[field], want) {
					t.Errorf("%s is %v, and not %v", field, got.Object[field], want)
				}
			}
		}
	}
	t.Logf("%d examples applied, %d of them with a status", applied, statuses)
	if applied != 10 || statuses != 2 {
		t.Errorf("%d examples applied, %d with a status", applied, statuses)
	}
}

// exampleKinds are the kinds of the examples.
var exampleKinds = map[string]schema.GroupVersionResource{
	"ClusterManagementAddOn": addOns("v1alpha1", "clustermanagementaddons"),
	"ManagedClusterAddOn":    addOns("v1alpha1", "managedclusteraddons"),
	"Placement":              {Group: "cluster.open-cluster-management.io", Version: "v1beta1", Resource: "placements"},
}

// holds reports whether a value has all that another one has. It may have defaults besides.
func holds(got, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for key, value := range w {
			if !holds(g[key], value) {
				return false
			}
		}
		return true
	case []any:
		g, _ := got.([]any)
		return len(g) == len(w) && !slices.ContainsFunc(w, func(value any) bool {
			return !slices.ContainsFunc(g, func(one any) bool { return holds(one, value) })
		})
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}

// roundTrips has a client of each version that writes back what it read, in turn.
func roundTrips(t *testing.T, client dynamic.Interface) {
	objects, err := render.Decode(bytes.NewReader([]byte(`
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: hello, namespace: default, annotations: {mine: kept}}
spec: {installNamespace: agents, configs: [{group: g, resource: r, name: c}]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello}
spec:
  addOnConfiguration: {crdName: a, crName: b, lastObservedGeneration: 3}
  addOnMeta: {displayName: Hello}
  supportedConfigs: [{group: g, resource: r, defaultConfig: {namespace: ns, name: d}}, {group: g, resource: s}]
`)))
	if err != nil {
		t.Fatal(err)
	}
	places := []string{"managedclusteraddons", "clustermanagementaddons"}
	for i, o := range objects {
		on := func(version string) dynamic.ResourceInterface {
			at := client.Resource(addOns(version, places[i]))
			if o.GetNamespace() != "" {
				return at.Namespace(o.GetNamespace())
			}
			return at
		}
		first, err := create(t.Context(), on("v1alpha1"), o)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 100 {
			version := []string{"v1beta1", "v1alpha1"}[round%2]
			read, err := on(version).Get(t.Context(), o.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			read.SetLabels(map[string]string{"last": fmt.Sprint("round-", round)})
			if _, err := on(version).Update(t.Context(), read, metav1.UpdateOptions{FieldValidation: "Strict"}); err != nil {
				t.Fatalf("round %d, %s: %v", round, version, err)
			}
		}
		last, err := on("v1alpha1").Get(t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := content(last), content(first); got != want {
			t.Errorf("after 100 round trips %s is\n%s\nit was\n%s", o.GetKind(), got, want)
		}
	}
}

// create waits until the API server serves a definition that was applied a moment ago.
func create(ctx context.Context, on dynamic.ResourceInterface, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got, err := on.Create(ctx, o, metav1.CreateOptions{})
		if err == nil || !apierrors.IsNotFound(err) && !apierrors.IsInternalError(err) || time.Now().After(deadline) {
			return got, errors.Join(err, ctx.Err())
		}
	}
}

// content is the user-visible part of an object.
func content(o *unstructured.Unstructured) string {
	text, _ := json.Marshal(map[string]any{"annotations": o.GetAnnotations(), "spec": o.Object["spec"]})
	return string(text)
}
