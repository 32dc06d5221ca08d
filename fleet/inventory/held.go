package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/relation"
)

// held returns the clusters on which an add-on must not start yet, and why.
func (r Reader) held(ctx context.Context, f *AddOn) (map[string]string, error) {
	required := relation.Names(f.Annotations)
	if len(required) == 0 {
		return nil, nil
	}
	var all ocm.List[ocm.ClusterManagementAddOn]
	if err := r.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	requires := make(map[string][]string)
	for i := range all.Items {
		requires[all.Items[i].Name] = relation.Names(all.Items[i].Annotations)
	}
	requires[f.Name] = required // a plan may have another one than the hub
	at := make(map[string]map[string]*ocm.ManagedClusterAddOn)
	for _, name := range required {
		var list ocm.List[ocm.ManagedClusterAddOn]
		if err := r.List(ctx, &list, client.MatchingFields{Name: name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		at[name] = make(map[string]*ocm.ManagedClusterAddOn)
		for i := range list.Items {
			at[name][list.Items[i].Namespace] = &list.Items[i]
		}
	}
	related := relation.AddOns{
		Kind: "ClusterManagementAddOn",
		Requires: func(name string) ([]string, bool) {
			names, exists := requires[name]
			return names, exists
		},
		Unready: func(name, cluster string) string { return unready(at[name][cluster]) },
	}
	held := make(map[string]string)
	for cluster := range f.Clusters {
		if why := related.Waits(f.Name, cluster); why != "" {
			held[cluster] = why
		}
	}
	return held, nil
}

// unready returns why others cannot rely on an add-on on a cluster, or "".
func unready(a *ocm.ManagedClusterAddOn) string {
	if a == nil {
		return "is not installed"
	}
	if !a.DeletionTimestamp.IsZero() {
		return "is being removed"
	}
	if p := meta.FindStatusCondition(a.Status.Conditions, "Progressing"); p != nil && p.Reason != "Completed" {
		return "is not complete (" + p.Message + ")"
	}
	switch c := meta.FindStatusCondition(a.Status.Conditions, "Available"); {
	case c == nil:
		return "has not reported its health"
	case c.Status != metav1.ConditionTrue:
		return "is not healthy (" + c.Message + ")"
	}
	return ""
}
