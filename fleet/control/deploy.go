package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/configuration"
	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/install"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/scene"
	"github.com/sealift/sealift/fleet/status"
	"github.com/sealift/sealift/fleet/template"
)

// clusterAddOns deploys add-ons on clusters, and tells how they are.
func (c *controllers) clusterAddOns() error {
	r := &clusterAddOns{controllers: c}
	return builder.ControllerManagedBy(c.hub).Named("cluster-addon").
		WithOptions(controller.Options{MaxConcurrentReconciles: c.Concurrency}).
		For(&ocm.ManagedClusterAddOn{}).
		Watches(&ocm.ManifestWork{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			name := o.GetLabels()[ocm.AddOnLabel]
			if name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
		})).
		Watches(&ocm.ManagedCluster{}, soon(func(ctx context.Context, o client.Object) []reconcile.Request {
			return every[ocm.ManagedClusterAddOn](c.Client, client.InNamespace(o.GetName()))(ctx, o)
		})).
		Complete(again(r))
}

// clusterAddOns reconciles ManagedClusterAddOns.
type clusterAddOns struct{ *controllers }

// place is an add-on on a cluster.
type place struct {
	addOn   *ocm.ManagedClusterAddOn
	cluster *ocm.ManagedCluster
	works   []ocm.ManifestWork
}

// Reconcile looks at one add-on on one cluster.
func (r *clusterAddOns) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := place{addOn: &ocm.ManagedClusterAddOn{}, cluster: &ocm.ManagedCluster{}}
	err := r.Get(ctx, types.NamespacedName{Name: req.Namespace}, p.cluster)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	gone := err != nil
	if err := r.Get(ctx, req.NamespacedName, p.addOn); apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.clean(ctx, req.NamespacedName, gone)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if p.works, err = r.works(ctx, p.addOn); err != nil {
		return reconcile.Result{}, err
	}
	if !p.addOn.DeletionTimestamp.IsZero() {
		return r.remove(ctx, p, gone)
	}
	if gone { // until it appears (O-10)
		return reconcile.Result{}, nil
	}
	var addOn ocm.ClusterManagementAddOn
	if err := r.Get(ctx, types.NamespacedName{Name: p.addOn.Name}, &addOn); err != nil || install.Unmanaged(addOn.Annotations) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, r.update(ctx, p, &addOn)
}

// update deploys the add-on if the hub renders it, and writes its status.
func (r *clusterAddOns) update(ctx context.Context, p place, addOn *ocm.ClusterManagementAddOn) error {
	before, after := p.addOn, copyOf(p.addOn)
	var failed error
	if scene.UsesTemplate(addOn) {
		after.Status.HealthCheck.Mode = ocm.HealthCustomized
		after.Status.SupportedConfigs = scene.Supported(addOn)
		p.addOn = after
		var finalizers []string
		p.works, finalizers, failed = r.deploy(ctx, p)
		if failed != nil && !isRefusal(failed) {
			return failed
		}
		if failed == nil && !slices.Equal(finalizers, before.Finalizers) {
			marked := copyOf(before)
			marked.Finalizers = finalizers
			if err := r.patch(ctx, before, marked); err != nil {
				return err
			}
			marked.Status, before = before.Status, marked
			status := after.Status
			after = copyOf(marked)
			after.Status = status
		}
	}
	r.progress(after, p.works)
	r.health(after, p)
	return client.IgnoreNotFound(r.patchStatus(ctx, before, after))
}

// health sets condition Available (O-36 to O-38).
func (r *clusterAddOns) health(a *ocm.ManagedClusterAddOn, p place) {
	state := meta.FindStatusCondition(p.cluster.Status.Conditions, scene.Available)
	if state != nil && state.Status == metav1.ConditionUnknown {
		r.set(&a.Status.Conditions, "Available", "Unknown", state.Reason, state.Message)
		return
	}
	if a.Status.HealthCheck.Mode != ocm.HealthCustomized || len(p.works) == 0 && meta.FindStatusCondition(a.Status.Conditions, "ManifestApplied") == nil {
		return // the agent looks at the add-on's Lease
	}
	works := slices.DeleteFunc(slices.Clone(p.works), func(w ocm.ManifestWork) bool { return w.Name == deploy.HookName(a.Name) })
	c := status.AddOn{Name: a.Name, Works: works}.Available()
	r.set(&a.Status.Conditions, c.Type, c.Status, c.Reason, c.Message)
}

// refusal is a mistake of a user. It becomes a condition and is not tried again until something changes.
type refusal struct{ error }

func isRefusal(err error) bool { return errors.As(err, &refusal{}) }

// deploy writes the works of an add-on and sets condition ManifestApplied. While a configuration is not the one that the
// add-on is to have, the works stay as they are (O-29). It returns the works, and the finalizers that the add-on needs.
func (r *clusterAddOns) deploy(ctx context.Context, p place) ([]ocm.ManifestWork, []string, error) {
	a := p.addOn
	if err := r.register(ctx, p); err != nil {
		return p.works, a.Finalizers, err
	}
	if !meta.IsStatusConditionTrue(a.Status.Conditions, "Configured") || meta.FindStatusCondition(a.Status.Conditions, "RegistrationApplied") == nil {
		return p.works, a.Finalizers, nil
	}
	works, hook, ready, err := r.render(ctx, p)
	if err != nil {
		reason := "AddonManifestAppliedFailed"
		r.set(&a.Status.Conditions, "ManifestApplied", "False", reason, "failed to get manifest from agent interface: "+err.Error())
		return p.works, a.Finalizers, refusal{err}
	}
	if !ready {
		return p.works, a.Finalizers, nil
	}
	finalizers := hookFinalizers(a.Finalizers, hook != nil)
	written, err := r.write(ctx, p.works, works)
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		r.set(&a.Status.Conditions, "ManifestApplied", "False", "ManifestWorkApplyFailed", "failed to apply manifestwork: "+err.Error())
		return p.works, finalizers, refusal{err}
	}
	if err != nil {
		return p.works, finalizers, err
	}
	r.set(&a.Status.Conditions, "ManifestApplied", "True", "AddonManifestApplied", "manifests of addon are applied successfully")
	return written, finalizers, nil
}

// render makes the works of an add-on from its template. It is not ready while an object has another content than the one
// that the add-on is to have.
func (r *clusterAddOns) render(ctx context.Context, p place) (works []ocm.ManifestWork, hook *ocm.ManifestWork, ready bool, err error) {
	a := p.addOn
	in := template.Input{AddOn: a.Name, Cluster: a.Namespace, ClusterAnnotations: p.cluster.Annotations}
	found := false
	for _, ref := range scene.References(a) {
		if ref.DesiredConfig == nil || ref.ConfigType != scene.Templates && ref.ConfigType != scene.DeploymentConfigs {
			continue
		}
		if ref.ConfigType == scene.Templates && ref.DesiredConfig.SpecHash == "" {
			return nil, nil, false, fmt.Errorf("addon %s template desired spec hash is empty: is there an AddOnTemplate %q?", a.Name, ref.DesiredConfig.Name)
		}
		if ref.DesiredConfig.SpecHash == "" {
			return nil, nil, false, fmt.Errorf("there is no %s %s/%s", ref.Resource, ref.DesiredConfig.Namespace, ref.DesiredConfig.Name)
		}
		object, err := r.content(ctx, ref)
		if err != nil || object == nil {
			return nil, nil, false, err
		}
		var into any = &in.Config // a later one of this type covers the fields that it has
		if ref.ConfigType == scene.Templates {
			found, into = true, &in.Template
		}
		if err := decodeSpec(object, into); err != nil {
			return nil, nil, false, err
		}
	}
	if !found {
		return nil, nil, false, fmt.Errorf("addon %s has no AddOnTemplate on this cluster", a.Name)
	}
	manifests, err := template.Render(in)
	if err != nil {
		return nil, nil, false, err
	}
	works, hook, err = deploy.Works(deploy.AddOn{
		Name: a.Name, Cluster: a.Namespace, References: scene.References(a), Spec: in.Template.AgentSpec, Manifests: manifests, Existing: p.works,
		Owner: metav1.OwnerReference{
			APIVersion: ocm.AddOnVersion.String(), Kind: "ManagedClusterAddOn", Name: a.Name, UID: a.UID, Controller: new(true), BlockOwnerDeletion: new(true),
		},
	})
	return works, hook, err == nil, err
}

// content returns the object of a reference, or nil unless its content is the desired one.
func (r *clusterAddOns) content(ctx context.Context, ref ocm.ConfigReference) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ocm.AddOnVersion.String())
	object.SetKind("AddOnDeploymentConfig")
	if ref.ConfigType == scene.Templates {
		object.SetKind("AddOnTemplate")
	}
	err := r.Get(ctx, types.NamespacedName{Namespace: ref.DesiredConfig.Namespace, Name: ref.DesiredConfig.Name}, object)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	text, err := scene.Hash(ref.ConfigType, object)
	if err != nil || text != ref.DesiredConfig.SpecHash {
		return nil, err
	}
	return object, nil
}

func decodeSpec(object *unstructured.Unstructured, into any) error {
	text, err := json.Marshal(object.Object["spec"])
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// write creates and changes works, and deletes those that are too many. It returns the works as they are afterwards.
func (r *clusterAddOns) write(ctx context.Context, had, want []ocm.ManifestWork) ([]ocm.ManifestWork, error) {
	var written []ocm.ManifestWork
	left := make(map[string]*ocm.ManifestWork)
	for i := range had {
		left[had[i].Name] = &had[i]
	}
	for i := range want {
		w := &want[i]
		before, found := left[w.Name]
		delete(left, w.Name)
		if !found {
			if err := r.Create(ctx, w); err != nil && !apierrors.IsAlreadyExists(err) {
				return nil, err
			}
			written = append(written, *w)
			continue
		}
		after := copyOf(before)
		after.Spec, after.OwnerReferences = w.Spec, w.OwnerReferences
		if after.Labels == nil {
			after.Labels = make(map[string]string)
		}
		maps.Copy(after.Labels, w.Labels)
		if after.Annotations == nil {
			after.Annotations = make(map[string]string)
		}
		delete(after.Annotations, configuration.HashAnnotation)
		maps.Copy(after.Annotations, w.Annotations)
		after.Spec = defaulted(after.Spec)
		if err := r.patch(ctx, before, after); err != nil {
			return nil, err
		}
		written = append(written, *after)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if w := left[name]; w.Name != deploy.HookName(w.Labels[ocm.AddOnLabel]) && w.DeletionTimestamp.IsZero() {
			if err := client.IgnoreNotFound(r.Delete(ctx, w)); err != nil {
				return nil, err
			}
		}
	}
	return written, nil
}

// defaulted has the defaults that the API server adds, so that a work that has them does not differ.
func defaulted(s ocm.AgentSpec) ocm.AgentSpec {
	s.ManifestConfigs = slices.Clone(s.ManifestConfigs)
	for i := range s.ManifestConfigs {
		if c := &s.ManifestConfigs[i]; c.FeedbackScrapeType == "" {
			c.FeedbackScrapeType = "Poll"
		}
	}
	return s
}
