package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sealift/sealift/fleet/deploy"
	"github.com/sealift/sealift/fleet/install"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/status"
	"github.com/sealift/sealift/fleet/template"
)

// clusterAddOns deploys add-ons on clusters, and reports their health.
func (c *controllers) clusterAddOns() error {
	r := &clusterAddOns{controllers: c}
	b := builder.ControllerManagedBy(c.hub).Named("cluster-addon").
		For(&ocm.ManagedClusterAddOn{}).
		Watches(&ocm.ManifestWork{}, last(func(_ context.Context, o client.Object) []reconcile.Request {
			labels := o.GetLabels()
			addOn := types.NamespacedName{
				Namespace: cmp.Or(labels[leaseCluster], labels[ocm.AddOnNamespaceLabel], o.GetNamespace()), Name: cmp.Or(labels[leaseAddOn], labels[ocm.AddOnLabel]),
			}
			if addOn.Name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: addOn}}
		})).
		Watches(&ocm.ManifestWork{}, handler.Funcs{DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			for _, request := range r.contesting(ctx, e.Object.GetNamespace()) {
				q.Add(request)
			}
		}}).
		Watches(&ocm.ManagedCluster{}, soon(func(ctx context.Context, o client.Object) []reconcile.Request {
			return append(every[ocm.ManagedClusterAddOn](c.Client, client.InNamespace(o.GetName()))(ctx, o),
				every[ocm.ManagedClusterAddOn](c.Client, client.MatchingFields{hostedBy: o.GetName()})(ctx, o)...)
		}))
	b.WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
		c.pending.calls(func(request reconcile.Request) { addLast(q, request) })
		return nil
	}))
	return c.sharded(b, r, every[ocm.ManagedClusterAddOn](c.Client))
}

// clusterAddOns reconciles ManagedClusterAddOns.
type clusterAddOns struct {
	*controllers
	unreported unreported
}

// place is an add-on on a cluster.
type place struct {
	// before is the stored state of the add-on, and addOn the desired one.
	before, addOn *ocm.ManagedClusterAddOn
	cluster       *ocm.ManagedCluster
	gone          bool                // the cluster
	hosting       *ocm.ManagedCluster // nil if no cluster of this hub hosts the agent
	works         []ocm.ManifestWork  // on both clusters, and on those that hosted the agent before
	lease         status.Condition    // the state of a hosted agent's Lease, if that determines the health
	unpinned      bool                // the works wait for the content of images
}

// Reconcile reconciles one add-on on one cluster.
func (r *clusterAddOns) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := place{addOn: &ocm.ManagedClusterAddOn{}}
	var err error
	if err := r.Get(ctx, req.NamespacedName, p.addOn); apierrors.IsNotFound(err) {
		r.unreported.forget(req.NamespacedName)
		r.pending.done(req.NamespacedName)
		r.outdated.gone(&ocm.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}})
		return reconcile.Result{}, r.clean(ctx, req.NamespacedName)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if p.cluster, err = r.cluster(ctx, req.Namespace); err != nil {
		return reconcile.Result{}, err
	}
	p.gone = p.cluster == nil
	if r.outdated.behind(p.addOn) {
		return reconcile.Result{RequeueAfter: outdatedTime}, nil
	}
	if host := p.addOn.Annotations[deploy.HostingCluster]; host != "" {
		if p.hosting, err = r.cluster(ctx, host); err != nil {
			return reconcile.Result{}, err
		}
	}
	if p.works, err = r.works(ctx, p.addOn); err != nil {
		return reconcile.Result{}, err
	}
	for i := range p.works {
		if r.outdated.behind(&p.works[i]) {
			return reconcile.Result{RequeueAfter: outdatedTime}, nil
		}
	}
	r.pending.done(req.NamespacedName)
	if !p.gone && !p.cluster.Spec.HubAcceptsClient { // also while the add-on waits for its hooks
		if err := r.revoke(ctx, p.addOn, nil); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !p.addOn.DeletionTimestamp.IsZero() {
		return r.remove(ctx, p)
	}
	if p.gone { // until it appears (O-10)
		return reconcile.Result{}, nil
	}
	again, err := r.deployOne(ctx, &p)
	return reconcile.Result{RequeueAfter: again}, err
}

// deployOne deploys an add-on and reports how it is, and returns when to look again.
func (r *clusterAddOns) deployOne(ctx context.Context, p *place) (again time.Duration, err error) {
	var addOn ocm.ClusterManagementAddOn
	if err := r.Get(ctx, types.NamespacedName{Name: p.addOn.Name}, &addOn); client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if p.lease, again, err = r.hostedLease(ctx, *p, inventory.UsesTemplate(&addOn)); err != nil {
		return 0, err
	}
	if addOn.Name == "" || install.Unmanaged(addOn.Annotations) {
		return again, r.unwatched(ctx, p.addOn, p.lease)
	}
	if err := r.update(ctx, p, &addOn); err != nil {
		return 0, err
	}
	if wait, err := r.report(ctx, *p); err != nil || wait > 0 {
		return wait, err
	}
	if meta.IsStatusConditionFalse(p.addOn.Status.Conditions, "RegistrationApplied") && (again == 0 || again > registrationRetry) {
		again = registrationRetry
	}
	if p.unpinned && (again == 0 || again > r.LookupInterval) {
		again = r.LookupInterval
	}
	return again, nil
}

// registrationRetry is how often the hub checks for missing Secrets and roles of a registration, which it does not watch.
const registrationRetry = time.Minute

// cluster returns a ManagedCluster, or nil if there is none.
func (c *controllers) cluster(ctx context.Context, name string) (*ocm.ManagedCluster, error) {
	var cluster ocm.ManagedCluster
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &cluster, nil
}

// works returns the works of an add-on: those on its cluster, and those on clusters that host its agent, or did.
func (c *controllers) works(ctx context.Context, a *ocm.ManagedClusterAddOn) ([]ocm.ManifestWork, error) {
	var own, hosted ocm.List[ocm.ManifestWork]
	err := errors.Join(c.List(ctx, &own, client.InNamespace(a.Namespace), client.MatchingLabels{ocm.AddOnLabel: a.Name}),
		c.List(ctx, &hosted, client.MatchingFields{hostedFor: a.Namespace + "/" + a.Name}))
	return append(status.Works(a.Name, a.Namespace, "", own.Items), hosted.Items...), err
}

// update deploys the add-on if the hub renders it, and finds its status.
func (r *clusterAddOns) update(ctx context.Context, p *place, addOn *ocm.ClusterManagementAddOn) error {
	p.before, p.addOn = p.addOn, copyOf(p.addOn)
	if inventory.UsesTemplate(addOn) {
		p.addOn.Status.HealthCheck.Mode = ocm.HealthCustomized
		p.addOn.Status.SupportedConfigs = inventory.Supported(addOn)
		if err := r.deploy(ctx, p); err != nil && !isRefusal(err) {
			return err
		}
	}
	r.progress(p.addOn, p.works)
	r.health(p.addOn, *p)
	return nil
}

// health sets condition Available (O-36 to O-38).
func (r *clusterAddOns) health(a *ocm.ManagedClusterAddOn, p place) {
	state := meta.FindStatusCondition(p.cluster.Status.Conditions, inventory.Available)
	if state != nil && state.Status == metav1.ConditionUnknown {
		r.set(&a.Status.Conditions, "Available", "Unknown", state.Reason, state.Message)
		return
	}
	if c := p.lease; c != (status.Condition{}) {
		r.set(&a.Status.Conditions, c.Type, c.Status, c.Reason, c.Message)
		return
	}
	if a.Status.HealthCheck.Mode != ocm.HealthCustomized || len(p.works) == 0 && meta.FindStatusCondition(a.Status.Conditions, "ManifestApplied") == nil {
		return // the agent checks the add-on's Lease
	}
	works := slices.DeleteFunc(slices.Clone(p.works), deploy.IsHook)
	c := status.AddOn{Name: a.Name, Works: works}.Available()
	r.set(&a.Status.Conditions, c.Type, c.Status, c.Reason, c.Message)
}

// refusal is a mistake of a user. It becomes a condition and is not tried again until something changes.
type refusal struct{ error }

func isRefusal(err error) bool { return errors.As(err, &refusal{}) }

// deploy writes the works of an add-on, its finalizers, and its conditions. While a configuration is not the desired one of the
// add-on, the works stay unchanged (O-29).
func (r *clusterAddOns) deploy(ctx context.Context, p *place) error {
	a := p.addOn
	if err := r.register(ctx, *p); err != nil {
		return err
	}
	if !deploy.Deployable(a, true) {
		if c := deploy.Validity(a, p.hosting); c.Type != "" && deploy.Deployable(a, false) { // only the configuration is missing
			r.set(&a.Status.Conditions, c.Type, string(c.Status), c.Reason, c.Message)
		}
		return nil
	}
	agent, err := r.render(ctx, *p)
	if p.unpinned = errors.Is(err, errUnpinned); p.unpinned || err == nil && agent == nil {
		return nil
	}
	var plan deploy.Plan
	if err == nil {
		plan, a.Status.Namespace = agent.plan, agent.namespace
	}
	if a.Annotations[deploy.HostingCluster] == "" {
		meta.RemoveStatusCondition(&a.Status.Conditions, deploy.HostingClusterValidity)
		meta.RemoveStatusCondition(&a.Status.Conditions, deploy.HostingManifestApplied)
	}
	next := deploy.Next(deploy.State{AddOn: a, Plan: plan, Failed: err, Existing: p.works, Hosting: p.hosting})
	for _, kind := range next.Clear {
		meta.RemoveStatusCondition(&a.Status.Conditions, kind)
	}
	for _, c := range next.Conditions {
		r.set(&a.Status.Conditions, c.Type, string(c.Status), c.Reason, c.Message)
	}
	if err != nil {
		return refusal{err}
	}
	if contested, err := r.contest(ctx, *p, plan); err != nil || contested {
		return err
	}
	// finalizers are written before the works that they clean up, and removed after them
	if err := r.finalize(ctx, p, union(a.Finalizers, next.Finalizers)); err != nil {
		return err
	}
	works, err := r.write(ctx, p.works, next)
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		r.set(&a.Status.Conditions, deploy.ManifestApplied, "False", "ManifestWorkApplyFailed", "failed to apply manifestwork: "+err.Error())
		return refusal{err}
	}
	if err != nil {
		return err
	}
	p.works = works
	return r.finalize(ctx, p, next.Finalizers)
}

func union(a, b []string) []string {
	list := slices.Clone(a)
	for _, item := range b {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// finalize writes the finalizers of an add-on, if they changed. Its status, which is not written yet, stays.
func (r *clusterAddOns) finalize(ctx context.Context, p *place, finalizers []string) error {
	if slices.Equal(finalizers, p.before.Finalizers) {
		return nil
	}
	marked := copyOf(p.before)
	marked.Finalizers = finalizers
	if err := r.patch(ctx, p.before, marked); err != nil {
		return err
	}
	status := p.addOn.Status
	marked.Status = p.before.Status
	p.before, p.addOn = marked, copyOf(marked)
	p.addOn.Status = status
	return nil
}

// rendered has the manifests of an add-on's template for a cluster.
type rendered struct {
	plan      deploy.Plan
	namespace string // of the agent
}

// render makes the works of an add-on from its template. It returns nil while an object has other content than the add-on's
// desired one.
func (r *clusterAddOns) render(ctx context.Context, p place) (*rendered, error) {
	a := p.addOn
	agent, err := r.agent(ctx, a, inventory.References(a))
	if err != nil || agent == nil {
		return nil, err
	}
	if p.cluster != nil { // it may be gone when hooks run
		agent.ClusterAnnotations = p.cluster.Annotations
	}
	if agent.Digests, err = r.images.digests(ctx, agent, p.works); err != nil {
		return nil, err
	}
	manifests, err := template.Render(agent.Input)
	if err != nil {
		return nil, err
	}
	plan, err := deploy.Works(deploy.AddOn{
		Name: a.Name, Cluster: a.Namespace, Hosting: a.Annotations[deploy.HostingCluster],
		References: inventory.References(a), Spec: agent.Template.AgentSpec, Manifests: manifests, Existing: p.works,
		Owner: metav1.OwnerReference{
			APIVersion: ocm.AddOnVersion.String(), Kind: "ManagedClusterAddOn", Name: a.Name, UID: a.UID, Controller: new(true), BlockOwnerDeletion: new(true),
		},
	})
	return &rendered{plan, template.InstallNamespace(agent.Config, manifests)}, err
}

// agent has the inputs of the rendering of an add-on's agent, and its template.
type agent struct {
	template.Input
	template *unstructured.Unstructured
	hash     string // of the template
}

// agent reads the configurations of an add-on on a cluster. It returns nil while one of them has another content.
func (c *controllers) agent(ctx context.Context, a *ocm.ManagedClusterAddOn, refs []ocm.ConfigReference) (*agent, error) {
	in := &agent{Input: template.Input{AddOn: a.Name, Cluster: a.Namespace}}
	for _, ref := range refs {
		if ref.DesiredConfig == nil || ref.ConfigType != inventory.Templates && ref.ConfigType != inventory.DeploymentConfigs {
			continue
		}
		if ref.ConfigType == inventory.Templates && ref.DesiredConfig.SpecHash == "" {
			return nil, fmt.Errorf("addon %s template desired spec hash is empty: is there an AddOnTemplate %q?", a.Name, ref.DesiredConfig.Name)
		}
		if ref.DesiredConfig.SpecHash == "" {
			return nil, fmt.Errorf("there is no %s %s/%s", ref.Resource, ref.DesiredConfig.Namespace, ref.DesiredConfig.Name)
		}
		object, err := c.content(ctx, ref)
		if err != nil || object == nil {
			return nil, err
		}
		var into any = &in.Config // a later one of this type covers the fields that it has
		if ref.ConfigType == inventory.Templates {
			in.template, in.hash, into = object, ref.DesiredConfig.SpecHash, &in.Template
		}
		if err := decodeSpec(object, into); err != nil {
			return nil, err
		}
	}
	if in.template == nil {
		return nil, fmt.Errorf("addon %s has no AddOnTemplate on this cluster", a.Name)
	}
	return in, nil
}

// content returns the object of a reference, or nil unless its content is the desired one.
func (c *controllers) content(ctx context.Context, ref ocm.ConfigReference) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ocm.AddOnVersion.String())
	object.SetKind("AddOnDeploymentConfig")
	if ref.ConfigType == inventory.Templates {
		object.SetKind("AddOnTemplate")
	}
	err := c.Get(ctx, types.NamespacedName{Namespace: ref.DesiredConfig.Namespace, Name: ref.DesiredConfig.Name}, object)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	text, err := inventory.Hash(ref.ConfigType, object)
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
