package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/kube"
)

// External applies add-ons to a cluster that Sealift did not install, as the owner addon.Command.
type External struct{ applier }

// NewExternal prepares for the cluster that a configuration reaches, and asks for its version. A cluster that does not answer fails at
// once: other requests wait for a control plane that restarts, for minutes.
func NewExternal(ctx context.Context, config *rest.Config) (*External, error) {
	m, err := newApplier(config)
	if err != nil {
		return nil, err
	}
	x := &External{*m}
	_, err = x.Version(ctx)
	return x, err
}

// Version returns the version of Kubernetes, without a leading v.
func (x *External) Version(ctx context.Context) (string, error) {
	version, err := x.engine.Version(ctx)
	return strings.TrimPrefix(version, "v"), err
}

// Owners reads who owns the add-ons of the cluster.
func (x *External) Owners(ctx context.Context) ([]addon.Record, error) { return x.records.List(ctx) }

// Provided returns the capabilities that the cluster shows: a Ready node has a pod network, and a default storage class is storage.
func (x *External) Provided(ctx context.Context) ([]string, error) {
	provided := []string{"kubernetes", catalog.ContainerRuntime}
	nodes, err := x.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if slices.ContainsFunc(nodes.Items, isReady) {
		provided = append(provided, catalog.PodNetwork)
	}
	classes, err := x.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list storage classes: %w", err)
	}
	for _, class := range classes.Items {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return append(provided, catalog.Storage), nil
		}
	}
	return provided, nil
}

func isReady(node corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// applyOptions leaves objects that others made as they are.
func applyOptions() kube.ApplyOptions { return kube.ApplyOptions{OnlyOwn: true} }

// Plan returns what Apply would do to the objects of an add-on. It fails with an *addon.OwnedError if another one owns it, and
// names every object that another one made. The kinds that the objects before define count as served.
func (x *External) Plan(ctx context.Context, name string, objects, before []*unstructured.Unstructured) (kube.Result, error) {
	set, err := x.ownSet(ctx, name)
	if err != nil {
		return kube.Result{}, err
	}
	o := applyOptions()
	o.Before = before
	return x.engine.Diff(ctx, set, objects, o)
}

// ownSet returns the set with the objects of an add-on that the command owns, or would own.
func (x *External) ownSet(ctx context.Context, name string) (kube.Set, error) {
	record, found, err := x.records.Get(ctx, name)
	if err != nil {
		return kube.Set{}, err
	}
	if found && record.Owner != addon.Command() {
		return kube.Set{}, &addon.OwnedError{Record: record}
	}
	set := setOf(name, []addon.Record{record})
	set.Namespace = kube.DefaultNamespace
	return set, nil
}

// Apply makes the cluster hold the objects of an add-on, and prunes former ones. It waits until all are healthy, unless wait is zero.
// Nothing is changed if Plan fails. Call it again after an interruption.
func (x *External) Apply(ctx context.Context, a AddOn, objects []*unstructured.Unstructured, wait time.Duration, output io.Writer) (result kube.Result, err error) {
	err = x.alone(ctx, output, func(ctx context.Context) error {
		if _, err := x.Plan(ctx, a.Name, objects, nil); err != nil {
			return err
		}
		set, err := x.own(ctx, a.Name, addon.Command())
		if err != nil {
			return err
		}
		o := applyOptions()
		o.Progress = func(e kube.Entry) { fmt.Fprintln(output, e) }
		if result, err = x.engine.Apply(ctx, set, objects, o); err != nil {
			return err
		}
		_, err = x.records.SetApplied(ctx, a.Name, addon.Command(), a.Applied)
		return err
	})
	if err != nil || wait == 0 {
		return result, err
	}
	return result, waitFor(ctx, x.engine, objects, wait, output)
}

// PlanRemoval returns what Remove would do. It fails if the command does not own the add-on.
func (x *External) PlanRemoval(ctx context.Context, name string, protected bool) (addon.Record, kube.Result, error) {
	record, found, err := x.records.Get(ctx, name)
	if err != nil {
		return record, kube.Result{}, err
	}
	if !found {
		return record, kube.Result{}, fmt.Errorf("nobody applied an add-on %s to this cluster by Sealift; 'sealift addon list' lists those that somebody did", name)
	}
	set, err := x.ownSet(ctx, name)
	if err != nil {
		return record, kube.Result{}, err
	}
	result, err := x.engine.Diff(ctx, set, nil, kube.ApplyOptions{PruneProtected: protected})
	return record, result, err
}

// Remove deletes the objects of an add-on that the command owns, and its record. Volume claims, namespaces and definitions stay with
// their content, unless protected is set. Call it again after an interruption.
func (x *External) Remove(ctx context.Context, name string, protected bool, output io.Writer) (result kube.Result, err error) {
	err = x.alone(ctx, output, func(ctx context.Context) error {
		set, err := x.ownSet(ctx, name)
		if err != nil {
			return err
		}
		o := kube.DeleteOptions{Protected: protected, Progress: func(e kube.Entry) { fmt.Fprintln(output, e) }}
		if result, err = x.engine.Delete(ctx, set, o); err != nil {
			return err
		}
		return x.records.Forget(ctx, name, addon.Command())
	})
	return result, err
}
