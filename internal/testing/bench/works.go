package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// follow calls seen for each work and its changes, until seen returns true.
func (f *fleetBench) follow(ctx context.Context, seen func(*unstructured.Unstructured) bool) error {
	for ctx.Err() == nil {
		list, err := f.client.Resource(fleetWorks).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if seen(&list.Items[i]) {
				return nil
			}
		}
		events, err := f.client.Resource(fleetWorks).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			return err
		}
		for e := range events.ResultChan() {
			if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Error && seen(o) {
				events.Stop()
				return nil
			}
		}
	}
	return ctx.Err()
}

// version returns the version that a work deploys.
func version(o *unstructured.Unstructured) string {
	manifests, _, _ := unstructured.NestedSlice(o.Object, "spec", "workload", "manifests")
	if len(manifests) == 0 {
		return ""
	}
	first, _ := manifests[0].(map[string]any)
	text, _, _ := unstructured.NestedString(first, "data", "version")
	return strings.TrimPrefix(text, "version-")
}

// wait waits until all works have a version.
func (f *fleetBench) wait(ctx context.Context, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	done := make(map[string]bool)
	err := f.follow(ctx, func(o *unstructured.Unstructured) bool {
		if version(o) == want {
			done[o.GetNamespace()+"/"+o.GetName()] = true
		}
		return len(done) == f.clusters*fleetAddOns
	})
	if err != nil {
		return fmt.Errorf("%d of %d works have version %s: %w", len(done), f.clusters*fleetAddOns, want, err)
	}
	return nil
}

// completed fails unless the hub reports all add-ons as rolled out everywhere.
func (f *fleetBench) completed(ctx context.Context) error {
	list, err := f.client.Resource(fleetAddOnKind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, addOn := range list.Items {
		if text := fmt.Sprint(addOn.Object["status"]); !strings.Contains(text, "completed with no errors") {
			return fmt.Errorf("add-on %s has not reached all clusters: %s", addOn.GetName(), text)
		}
	}
	return nil
}

// agents reports each work as applied, once.
func (f *fleetBench) agents(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(fleetAtOnce)
	told := make(map[string]int64)
	err := f.follow(ctx, func(o *unstructured.Unstructured) bool { // until ctx ends
		name := o.GetNamespace() + "/" + o.GetName()
		if told[name] == o.GetGeneration() {
			return false
		}
		told[name] = o.GetGeneration()
		condition := func(kind string) string {
			return fmt.Sprintf(`{"type":%q,"status":"True","reason":"Bench","message":"","observedGeneration":%d,"lastTransitionTime":%q}`, kind, o.GetGeneration(), time.Now().UTC().Format(time.RFC3339))
		}
		patch := `{"status":{"conditions":[` + condition("Applied") + "," + condition("Available") + `]}}`
		group.Go(func() error {
			_, err := f.client.Resource(fleetWorks).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "bench: a fake agent:", err)
			}
			return nil
		})
		return false
	})
	_ = group.Wait()
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "bench: the fake agents ended:", err)
	}
}
