// Package chartplan decides what a HelmChartProxy does on each cluster, and what a HelmReleaseProxy does with its Helm release
// (C-7 to C-14, C-19 to C-22). It is pure: controllers observe, ask, and act.
package chartplan

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/fleet/caaph"
)

// Cluster has the fields of a Cluster object that decisions depend on.
type Cluster struct {
	APIVersion, Namespace, Name string
	Labels                      map[string]string
	// Paused and Deleting clusters stay selected and are left alone.
	Paused, Deleting bool
}

// Reference returns the reference to the cluster.
func (c Cluster) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: c.APIVersion, Kind: "Cluster", Namespace: c.Namespace, Name: c.Name}
}

// Select returns the clusters of the proxy's namespace that it selects, in their order. An empty selector selects all
// (C-7).
func Select(hcp *caaph.HelmChartProxy, clusters []Cluster) ([]Cluster, error) {
	selector, err := metav1.LabelSelectorAsSelector(&hcp.Spec.ClusterSelector)
	if err != nil {
		return nil, err
	}
	var selected []Cluster
	for _, c := range clusters {
		if c.Namespace == hcp.Namespace && selector.Matches(labels.Set(c.Labels)) {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

// Orphans returns the releases of clusters that are no longer selected. With InstallOnce there are none (C-12).
func Orphans(hcp *caaph.HelmChartProxy, selected []Cluster, releases []caaph.HelmReleaseProxy) []caaph.HelmReleaseProxy {
	if hcp.Spec.ReconcileStrategy == caaph.InstallOnce {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(releases), func(r caaph.HelmReleaseProxy) bool {
		return slices.ContainsFunc(selected, func(c Cluster) bool {
			return r.Spec.ClusterRef.Name == c.Name && r.Spec.ClusterRef.Namespace == c.Namespace
		})
	})
}

// Action is what a HelmChartProxy does for one cluster.
type Action string

// What happens with the HelmReleaseProxy of a cluster.
const (
	Keep      Action = "Keep"
	Create    Action = "Create"
	Update    Action = "Update"
	Reinstall Action = "Reinstall" // delete it, wait until it is gone, create it
)

// Decide returns what a HelmChartProxy does for one cluster, and the HelmReleaseProxy to write. The existing ones belong to
// this proxy and cluster.
func Decide(hcp *caaph.HelmChartProxy, c Cluster, existing []caaph.HelmReleaseProxy, values string) (Action, caaph.HelmReleaseProxy, error) {
	switch {
	case len(existing) > 1:
		return Keep, caaph.HelmReleaseProxy{}, fmt.Errorf("cluster %s: multiple HelmReleaseProxies found matching the cluster and HelmChartProxy", c.Name)
	case len(existing) == 0:
		return Create, build(hcp, c, values), nil
	}
	had := existing[0]
	if hcp.Spec.ReconcileStrategy == caaph.InstallOnce && had.Annotations[caaph.Installed] == "true" {
		return Keep, had, nil
	}
	if different(hcp, had) {
		return Reinstall, had, nil
	}
	want, name := had, had.Spec.ReleaseName
	want.Spec.Chart = chart(hcp)
	if want.Spec.ReleaseName == "" {
		want.Spec.ReleaseName = name
	}
	want.Spec.Values = values
	// a changed strategy alone does not cause a write, but is included in one
	same := want.Spec
	same.ReconcileStrategy = had.Spec.ReconcileStrategy
	if equality.Semantic.DeepEqual(same, had.Spec) {
		return Keep, had, nil
	}
	return Update, want, nil
}

// different reports whether the release must be removed before it can match the proxy (C-11).
func different(hcp *caaph.HelmChartProxy, r caaph.HelmReleaseProxy) bool {
	if hcp.Spec.ChartName != r.Spec.ChartName || hcp.Spec.RepoURL != r.Spec.RepoURL || hcp.Spec.ReleaseNamespace != r.Spec.ReleaseNamespace {
		return true
	}
	if hcp.Spec.ReleaseName == "" && r.Annotations[caaph.GeneratedName] == "true" {
		return false
	}
	return hcp.Spec.ReleaseName != r.Spec.ReleaseName
}

// chart returns the part that the proxy copies, with the namespaces of Secrets filled in.
func chart(hcp *caaph.HelmChartProxy) caaph.Chart {
	c := hcp.Spec.Chart
	if c.Credentials != nil {
		c.Credentials = new(*c.Credentials)
		if c.Credentials.Secret.Namespace == "" {
			c.Credentials.Secret.Namespace = hcp.Namespace
		}
		if c.Credentials.Key == "" {
			c.Credentials.Key = "config.json"
		}
	}
	if c.TLSConfig != nil && c.TLSConfig.CASecret != nil && c.TLSConfig.CASecret.Namespace == "" {
		c.TLSConfig = new(*c.TLSConfig)
		c.TLSConfig.CASecret = &corev1.SecretReference{Name: c.TLSConfig.CASecret.Name, Namespace: hcp.Namespace}
	}
	return c
}

// build makes the HelmReleaseProxy of a cluster (C-8, C-9).
func build(hcp *caaph.HelmChartProxy, c Cluster, values string) caaph.HelmReleaseProxy {
	r := caaph.HelmReleaseProxy{ObjectMeta: metav1.ObjectMeta{
		GenerateName: generateName(hcp.Spec.ChartName, c.Name), Namespace: hcp.Namespace,
		Labels: map[string]string{caaph.ClusterLabel: c.Name, caaph.ChartLabel: hcp.Name},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: caaph.APIVersion, Kind: "HelmChartProxy", Name: hcp.Name, UID: hcp.UID,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}}
	r.Spec = caaph.HelmReleaseProxySpec{ClusterRef: c.Reference(), Chart: chart(hcp), Values: values}
	if r.Spec.ReleaseName == "" {
		r.Annotations = map[string]string{caaph.GeneratedName: "true"}
	}
	return r
}

// maxPrefix leaves room for the five characters that the API server appends to a name.
const maxPrefix = 63 - 5

// generateName returns <chart>-<cluster>-. A name that the API would refuse is changed, and gets a hash.
func generateName(chart, cluster string) string {
	name := chart + "-" + cluster + "-"
	if len(name) <= maxPrefix && len(validation.IsDNS1123Subdomain(name+"xxxxx")) == 0 {
		return name
	}
	sum := fnv.New32a()
	sum.Write([]byte(name))
	suffix := fmt.Sprintf("%08x-", sum.Sum32())
	clean := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	return strings.TrimLeft(clean[:min(len(clean), maxPrefix-len(suffix)-1)]+"-"+suffix, "-")
}
