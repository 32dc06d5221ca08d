package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sealift/sealift/kube"
)

// Apply installs the objects of Hub or Managed in a cluster, and keeps their record in the namespace. Open Cluster Management, kubectl or a
// person may have created them before: the fields that we set become ours, and other content, such as annotations and finalizers, is kept.
func Apply(ctx context.Context, cluster *kube.Cluster, namespace string, objects []*unstructured.Unstructured) error {
	definitions, err := cluster.Objects(ctx, kube.Ref{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err != nil {
		return err
	}
	var former []*unstructured.Unstructured
	var errs []error
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		live, err := definitions.Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if convertsOtherwise(live, o) {
			former = append(former, o)
		}
		errs = append(errs, checkStored(live, o))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, o := range former {
		if err := setConversion(ctx, definitions, o); err != nil {
			return err
		}
	}
	engine := kube.New(cluster, kube.Options{TakeOver: []string{}})
	_, err = engine.Apply(ctx, kube.Set{Name: "fleet-definitions", Namespace: namespace}, objects, kube.ApplyOptions{Force: true})
	return err
}

// Convert lets the API server reach the webhook of the definitions in this way, where it does not.
func Convert(ctx context.Context, cluster *kube.Cluster, c Conversion) error {
	objects, err := Hub(c)
	if err != nil {
		return err
	}
	definitions, err := cluster.Objects(ctx, kube.Ref{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err != nil {
		return err
	}
	for _, o := range objects {
		want, found, _ := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook", "clientConfig")
		if !found {
			continue
		}
		live, err := definitions.Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if has, _, _ := unstructured.NestedMap(live.Object, "spec", "conversion", "webhook", "clientConfig"); reflect.DeepEqual(has, want) {
			continue
		}
		if err := setConversion(ctx, definitions, o); err != nil {
			return err
		}
	}
	return nil
}

// checkStored finds versions in which objects of a kind may be stored and that we do not serve. The API server refuses such a definition,
// but would do so when others are changed already.
func checkStored(live, o *unstructured.Unstructured) error {
	var errs []error
	served := versionsOf(o)
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	for _, version := range stored {
		if !slices.Contains(served, version) {
			errs = append(errs, fmt.Errorf("objects of %s may be stored in version %s, which is not served here, and nothing was changed: while the earlier hub serves them, "+
				"write each again ('kubectl get %[1]s -A -o yaml | kubectl replace -f -'), then remove %[2]s from status.storedVersions of the CustomResourceDefinition "+
				"('kubectl edit crd %[1]s --subresource=status')", o.GetName(), version))
		}
	}
	return errors.Join(errs...)
}

// convertsOtherwise reports whether a definition names a webhook by a field that ours does not have: its Service, its URL, or a webhook at
// all. An apply leaves such a field to its manager, and the API server refuses it together with ours.
func convertsOtherwise(live, o *unstructured.Unstructured) bool {
	ours, found, _ := unstructured.NestedMap(o.Object, "spec", "conversion")
	if !found {
		return false
	}
	client, _, _ := unstructured.NestedMap(live.Object, "spec", "conversion", "webhook", "clientConfig")
	want, _, _ := unstructured.NestedMap(ours, "webhook", "clientConfig")
	for _, field := range []string{"service", "url"} {
		if client[field] != nil && want[field] == nil {
			return true
		}
	}
	return false
}

// setConversion replaces the conversion of a definition as a whole, whoever owns it.
func setConversion(ctx context.Context, definitions dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	conversion, _, _ := unstructured.NestedMap(o.Object, "spec", "conversion")
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/conversion", "value": conversion}})
	if err == nil {
		_, err = definitions.Patch(ctx, o.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: kube.Manager})
	}
	if err != nil {
		return fmt.Errorf("replace the conversion of %s: %w", o.GetName(), err)
	}
	return nil
}

func versionsOf(definition *unstructured.Unstructured) (names []string) {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		names = append(names, name)
	}
	return names
}
