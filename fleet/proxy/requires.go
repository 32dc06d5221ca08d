package proxy

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/relation"
)

// waitsForOthers is the reason of condition HelmReleaseProxySpecsUpToDate while a required chart is not ready.
const waitsForOthers = "WaitsForOthers"

// held returns the selected clusters on which a chart that this one requires is not ready, and why nothing starts there.
func (p *pass) held(ctx context.Context) (map[string]string, error) {
	required := relation.Names(p.hcp.Annotations)
	if len(required) == 0 {
		return nil, nil
	}
	var charts caaph.HelmChartProxyList
	var releases caaph.HelmReleaseProxyList
	if err := p.List(ctx, &charts, client.InNamespace(p.hcp.Namespace)); err != nil {
		return nil, err
	}
	if err := p.List(ctx, &releases, client.InNamespace(p.hcp.Namespace)); err != nil {
		return nil, err
	}
	requires := make(map[string][]string)
	for _, c := range charts.Items {
		requires[c.Name] = relation.Names(c.Annotations)
	}
	related := relation.AddOns{
		Kind: "HelmChartProxy",
		Requires: func(name string) ([]string, bool) {
			names, exists := requires[name]
			return names, exists
		},
		Unready: func(name, cluster string) string {
			at := slices.IndexFunc(releases.Items, func(r caaph.HelmReleaseProxy) bool {
				return r.Labels[caaph.ChartLabel] == name && r.Spec.ClusterRef.Name == cluster
			})
			if at < 0 {
				return "has no release"
			}
			return unready(&releases.Items[at])
		},
	}
	held := make(map[string]string)
	for _, c := range p.selected {
		if why := related.Waits(p.hcp.Name, c.Name); why != "" {
			held[c.Name] = why
		}
	}
	return held, nil
}

// unready returns why others cannot rely on a release, or "".
func unready(r *caaph.HelmReleaseProxy) string {
	ready := condition(r.Status.Conditions, releaseReady)
	switch {
	case !r.DeletionTimestamp.IsZero():
		return "is being removed"
	case r.Status.ObservedGeneration != r.Generation || ready.Status == "":
		return "is being worked on"
	case ready.Status != "True":
		return fmt.Sprintf("is not ready (%s %s)", ready.Reason, ready.Message)
	}
	return ""
}

// free returns the works that wait for no other chart, and the reasons of the others.
func (p *pass) free(works []work, held map[string]string) []work {
	return slices.DeleteFunc(works, func(w work) bool {
		why := held[w.cluster.Name]
		if why == "" || w.action == chartplan.Keep {
			return false
		}
		p.show(waitsForOthers, why)
		return true
	})
}

// dependents enqueues the charts that require the one of an object.
func (w *watchClusters) dependents(ctx context.Context, o client.Object) (requests []reconcile.Request) {
	name := o.GetName()
	if _, of := o.(*caaph.HelmReleaseProxy); of {
		name = o.GetLabels()[caaph.ChartLabel]
	}
	var list caaph.HelmChartProxyList
	if err := w.manager.GetClient().List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil // the cache is closed: the hub ends
	}
	for _, c := range list.Items {
		if slices.Contains(relation.Names(c.Annotations), name) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}})
		}
	}
	return requests
}
