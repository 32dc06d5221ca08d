package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/kube/render"
	"github.com/sealift/sealift/testgrid/cases"
	"github.com/sealift/sealift/testgrid/controlplane"
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
		if err := <-ended; err != nil {
			t.Errorf("the hub ended with %v", err)
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
}

// resources are the kinds of the samples.
var resources = map[string]schema.GroupVersionResource{
	"AddOnTemplate":          addOns("v1alpha1", "addontemplates"),
	"ClusterManagementAddOn": addOns("v1alpha1", "clustermanagementaddons"),
	"HelmChartProxy":         {Group: "addons.cluster.x-k8s.io", Version: "v1alpha1", Resource: "helmchartproxies"},
}

func samplesApply(t *testing.T, client dynamic.Interface) {
	found, err := filepath.Glob(filepath.Join(cases.Path(t, "fleet/samples"), "*/*.yaml"))
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

// roundTrips has a client of each version that writes what it read, in turn.
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

// content is what users see of an object.
func content(o *unstructured.Unstructured) string {
	text, _ := json.Marshal(map[string]any{"annotations": o.GetAnnotations(), "spec": o.Object["spec"]})
	return string(text)
}
