package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// cordonAnnotation names the one who cordoned a node: only they uncordon it.
const cordonAnnotation = "sealift.dev/cordoned-by"

// Cordon keeps new pods from a node. A node that is already cordoned is left alone: somebody else cordoned it.
func (v *View) Cordon(ctx context.Context, name, by string) error {
	off, _, err := v.cordoned(ctx, name)
	if err != nil || off {
		return err
	}
	return v.patchNode(ctx, name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{cordonAnnotation: by}}, "spec": map[string]any{"unschedulable": true},
	})
}

// Uncordon lets a node take pods again, if Cordon with the same by has kept them from it.
func (v *View) Uncordon(ctx context.Context, name, by string) error {
	_, who, err := v.cordoned(ctx, name)
	if err != nil || who != by {
		return err
	}
	return v.patchNode(ctx, name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{cordonAnnotation: nil}}, "spec": map[string]any{"unschedulable": nil},
	})
}

func (v *View) cordoned(ctx context.Context, name string) (off bool, by string, err error) {
	object, err := v.nodeObject(ctx, name)
	if err != nil {
		return false, "", err
	}
	off, _, _ = unstructured.NestedBool(object.Object, "spec", "unschedulable")
	return off, object.GetAnnotations()[cordonAnnotation], nil
}

// Annotate sets annotations of a node; those that are "" are removed.
func (v *View) Annotate(ctx context.Context, name string, annotations map[string]string) error {
	values := map[string]any{}
	for key, value := range annotations {
		values[key] = nil
		if value != "" {
			values[key] = value
		}
	}
	return v.patchNode(ctx, name, map[string]any{"metadata": map[string]any{"annotations": values}})
}

func (v *View) patchNode(ctx context.Context, name string, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	nodes, err := v.cluster.Objects(ctx, nodeKind)
	if err == nil {
		_, err = nodes.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("change node %s: %w", name, err)
	}
	return nil
}

// Evict moves the pods from a node that something makes again elsewhere, as their disruption budgets allow. Those of DaemonSets,
// of the node itself, and those that nothing would recreate stay. Pods that stay longer than timeout are a *StayedError.
func (v *View) Evict(ctx context.Context, name string, timeout time.Duration, output io.Writer) error {
	m := &Member{Node: name, cluster: v.cluster, output: output}
	return m.evictAll(ctx, timeout, func(pod unstructured.Unstructured) bool {
		return movable(pod) && len(pod.GetOwnerReferences()) > 0
	})
}

// Settled returns what keeps a node from being ready: "" when it is Ready, and all its pods are.
func (v *View) Settled(ctx context.Context, name string) (why string, err error) {
	n, err := v.OwnNode(ctx, name)
	if err != nil {
		return "", err
	}
	if !n.Ready {
		return "it is not Ready: " + n.Why, nil
	}
	all, err := v.cluster.Objects(ctx, podKind)
	if err != nil {
		return "", fmt.Errorf("list the pods of node %s: %w", name, err)
	}
	pods, err := all.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return "", fmt.Errorf("list the pods of node %s: %w", name, err)
	}
	var waiting []string
	for _, pod := range pods.Items {
		if !podReady(pod) {
			waiting = append(waiting, pod.GetNamespace()+"/"+pod.GetName())
		}
	}
	if len(waiting) > 0 {
		return "pods that are not Ready: " + strings.Join(waiting, ", "), nil
	}
	return "", nil
}

// podReady reports whether a pod does its work, or has done it.
func podReady(pod unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	if phase == "Succeeded" || phase == "Failed" || pod.GetDeletionTimestamp() != nil {
		return true
	}
	works, _ := ready(pod)
	return works
}

// AnnotationsOf returns the annotations of one node.
func (v *View) AnnotationsOf(ctx context.Context, name string) (map[string]string, error) {
	object, err := v.nodeObject(ctx, name)
	if err != nil {
		return nil, err
	}
	return object.GetAnnotations(), nil
}

// Annotations returns those of all nodes, by name.
func (v *View) Annotations(ctx context.Context) (map[string]map[string]string, error) {
	nodes, err := v.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]string{}
	for _, n := range nodes {
		found[n.GetName()] = n.GetAnnotations()
	}
	return found, nil
}
