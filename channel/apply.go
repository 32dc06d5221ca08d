package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/kube"
)

// The labels with which kOps marks the objects of an add-on (K-26).
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelAddon     = "addon.kops.k8s.io/name"
)

// ApplyOptions limits what Apply does. The zero value deletes only what the prune rules of an entry name.
type ApplyOptions struct {
	// Prune also deletes what left an add-on that has no prune rules: what its set held, and what its selector names.
	Prune bool
	// Adopt names add-ons to adopt again although they were released.
	Adopt []string
	// Patience bounds how long the pass retries add-ons that wait for others when none makes progress; 0 is a minute.
	Patience time.Duration
	// Done is called for each add-on that was brought up to date: in the order of the plan, those that had to wait later.
	Done func(Decision)
	// Note gets lines for a person who watches: that this run waits for another one, or that an add-on waits.
	Note func(line string)
}

// Apply carries out a plan, one add-on after the other. An add-on that fails does not stop the others; the error joins the
// failures. One that needs something missing, such as the webhook of another, waits until the others are done. Only one Apply
// works on a cluster at a time: the others wait, and then plan the remaining work again.
func (c *Cluster) Apply(ctx context.Context, source Source, plan Plan, o ApplyOptions) error {
	if len(plan.Updates()) == 0 {
		return nil
	}
	entries := make([]Entry, len(plan.Addons))
	for i, d := range plan.Addons {
		entries[i] = d.Entry
	}
	return c.withLease(ctx, o.Note, func(ctx context.Context) error {
		// The run that had the Lease before may have done some of it.
		err := c.retry(ctx, kube.Ref{Kind: "plan"}, func(ctx context.Context) (err error) {
			plan, err = c.Plan(ctx, entries, o.Adopt...)
			return err
		})
		if err != nil {
			return err
		}
		return newPass(c, source, plan, o).run(ctx)
	})
}

// update applies the objects of an add-on, prunes, and records it. A record means that the add-on was applied; an interrupted
// one is not recorded, and is applied again.
func (p *pass) update(ctx context.Context, a *addOn) error {
	if a.objs == nil {
		objs, err := p.objects(ctx, a)
		if err != nil {
			return err
		}
		a.objs = objs
	}
	if err := p.applyAndPrune(ctx, a); err != nil {
		return err
	}
	if a.Action == Update || a.Action == Adopt && a.Installed != nil && VersionOf(a.Installed.Version) != VersionOf(a.Entry.Version) {
		if err := p.markNodes(ctx, a.Entry.NeedsRollingUpdate); err != nil {
			return err
		}
	}
	// After the nodes: an interrupted adoption is recognized by what the installer applied, and marks them again.
	if err := p.applied(ctx, a.Entry); err != nil {
		return err
	}
	return p.writeRecord(ctx, a.Entry)
}

func (p *pass) applyAndPrune(ctx context.Context, a *addOn) error {
	e := a.Entry
	prunes := p.options.Prune || e.Prune != nil
	if len(a.objs) == 0 && prunes && e.ManifestHash != ManifestHash(nil) {
		// A file that was cut off is more often the cause than the wish to delete all of it.
		return fmt.Errorf("manifest %s has no objects, so everything would be pruned; nothing was changed: if you intend that, declare the manifestHash %s", shown(e.Location), ManifestHash(nil))
	}
	if err := p.checkNamespace(ctx, e.Namespace, a.objs); err != nil {
		return err
	}
	if err := p.own(ctx, a); err != nil {
		return err
	}
	spare := func(ref kube.Ref) string { return p.spare(ctx, a, ref) }
	run := &addonRun{Cluster: p.Cluster, set: setOf(e), objs: a.objs, options: kube.ApplyOptions{
		Force: true, FailFast: true, NoPrune: !p.options.Prune || e.Prune != nil, Spare: spare,
		Contest: func(ref kube.Ref, holder kube.Set) kube.Verdict { return p.contest(ctx, a, ref, holder) },
	}}
	applied := run.apply(ctx)
	if !prunes {
		return applied
	}
	result, err := p.engine.PruneMatching(ctx, run.set, pruneRules(e), kube.MatchOptions{
		Own: ownLabels(e), Common: []string{labelManagedBy}, Keep: a.objs, Spare: spare, Members: len(p.source.Trusted) > 0, // the rules are not signed
	})
	for _, entry := range result.Entries {
		if entry.Action == kube.Kept {
			p.log.WarnContext(ctx, "a prune rule names an object that stays", "addon", e.Name, "object", entry.Object.String(), "reason", entry.Message)
		}
	}
	if err != nil {
		return errors.Join(applied, err)
	}
	if applied != nil && result.Count(kube.Pruned) > 0 {
		applied = run.apply(ctx) // the obstacle may be gone
	}
	return applied
}

// checkNamespace finds out before anything is changed whether the add-on can be recorded afterwards (K-18).
func (c *Cluster) checkNamespace(ctx context.Context, name string, objs []*unstructured.Unstructured) error {
	comes := slices.ContainsFunc(objs, func(obj *unstructured.Unstructured) bool {
		return obj.GetKind() == "Namespace" && obj.GetAPIVersion() == "v1" && obj.GetName() == name
	})
	if comes {
		return nil
	}
	var there bool
	err := c.retry(ctx, named(namespaces, name), func(ctx context.Context) (err error) {
		there, err = c.exists(ctx, named(namespaces, name))
		return err
	})
	if err != nil {
		return fmt.Errorf("error querying namespace %q: %w", name, err)
	}
	if !there {
		return fmt.Errorf("error querying namespace %q: it does not exist, and the add-on does not bring it", name)
	}
	return nil
}

// setOf is the set that holds the objects of an add-on.
func setOf(e Entry) kube.Set {
	name := strings.ToLower("addon-" + e.Name)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		name = "addon-" + ManifestHash([]byte(e.Name))[:16]
	}
	return kube.Set{Name: name, Namespace: e.Namespace}
}

// addonRun is one update of one add-on.
type addonRun struct {
	*Cluster
	set     kube.Set
	objs    []*unstructured.Unstructured
	options kube.ApplyOptions
}

// apply applies each object once, and checks the result once (K-22, K-23).
func (r *addonRun) apply(ctx context.Context) error {
	unplaced, err := r.engine.Unplaced(ctx, r.objs)
	if err != nil {
		return err
	}
	objs := slices.DeleteFunc(slices.Clone(r.objs), func(obj *unstructured.Unstructured) bool {
		return slices.Contains(unplaced, kube.RefOf(obj))
	})
	var errs []error
	for _, ref := range unplaced {
		errs = append(errs, fmt.Errorf("%s has no namespace", ref))
	}
	o := r.options
	o.NoPrune = o.NoPrune || len(unplaced) > 0
	if _, err := r.engine.Apply(ctx, r.set, objs, o); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("not all objects were applied: %w", err)
	}
	ill, err := r.unhealthy(ctx, objs)
	if err != nil {
		return err
	}
	if len(ill) > 0 {
		return fmt.Errorf("not all objects were healthy: %w", errors.Join(ill...))
	}
	return nil
}

// prunedKinds are those that kOps prunes by default: never Namespaces, definitions or claims (K-26).
func prunedKinds() []PruneKind {
	return []PruneKind{
		{Kind: "ConfigMap"}, {Kind: "Service"}, {Kind: "ServiceAccount"},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		{Group: "apps", Kind: "DaemonSet"}, {Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "StatefulSet"},
		{Group: "policy", Kind: "PodDisruptionBudget"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, {Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"},
	}
}

// pruneRules are the entry's, or else those that follow from its selector.
func pruneRules(e Entry) []kube.Match {
	kinds := []PruneKind{}
	switch {
	case e.Prune != nil:
		kinds = e.Prune.Kinds
	case len(e.Selector) > 0:
		kinds = prunedKinds()
		for i := range kinds {
			kinds[i].LabelSelector = labelSelector(e.Selector)
		}
	}
	rules := make([]kube.Match, len(kinds))
	for i, k := range kinds {
		rules[i] = kube.Match(k)
	}
	return rules
}

// ownLabels are the labels of an object of an add-on that kOps built.
func ownLabels(e Entry) map[string]string {
	return map[string]string{labelManagedBy: manager, labelAddon: e.Name}
}

func labelSelector(labels map[string]string) string {
	terms := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		terms = append(terms, key+"="+labels[key])
	}
	return strings.Join(terms, ",")
}
