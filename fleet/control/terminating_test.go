package control_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
)

// everywhere installs hello on all clusters at once, also on those without an agent.
const everywhere = `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: everywhere, namespace: default}
spec: {tolerations: [{operator: Exists}]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: hello}}
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, defaultConfig: {name: hello, namespace: default}}
  installStrategy: {type: Placements, placements: [{name: everywhere, namespace: default}]}
`

// TestTerminatingNamespaceHoldsUpNoOtherCluster rolls an add-on out on two clusters. The namespace of one is being deleted, and does not
// go: no controller for namespaces runs.
func TestTerminatingNamespaceHoldsUpNoOtherCluster(t *testing.T) {
	t.Parallel()
	g := newGrid(t)
	for _, name := range []string{"oslo", "rome"} {
		g.apply(fmt.Sprintf("apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: %s}\nspec: {hubAcceptsClient: true}\n", name))
		g.eventually("the namespace of "+name, func() string {
			if err := g.client.Get(t.Context(), types.NamespacedName{Name: name}, &corev1.Namespace{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	g.must(g.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "oslo"}}))
	g.apply(hello + "---" + fmt.Sprintf(config, "1") + "---" + everywhere)
	had := ""
	for _, version := range []string{"1", "2"} {
		g.apply(fmt.Sprintf(config, version))
		g.eventually("rome gets configuration "+version, func() string {
			var a ocm.ManagedClusterAddOn
			if err := g.client.Get(t.Context(), types.NamespacedName{Namespace: "rome", Name: "hello"}, &a); err != nil {
				return err.Error()
			}
			for _, ref := range inventory.References(&a) {
				if ref.ConfigType == inventory.DeploymentConfigs && ref.DesiredConfig != nil && ref.DesiredConfig.SpecHash != had {
					had = ref.DesiredConfig.SpecHash
					return ""
				}
			}
			return fmt.Sprintf("%+v", a.Status.ConfigReferences)
		})
	}
	g.eventually("the status of the add-on says how far it is", func() string {
		var a ocm.ClusterManagementAddOn
		g.must(g.client.Get(t.Context(), types.NamespacedName{Name: "hello"}, &a))
		for _, p := range a.Status.InstallProgressions {
			if meta.FindStatusCondition(p.Conditions, "Progressing") != nil && len(a.Status.DefaultConfigReferences) > 0 {
				return ""
			}
		}
		return fmt.Sprintf("%+v", a.Status)
	})
	if why := g.has("oslo", "hello", "Available", ""); !strings.Contains(why, "not found") {
		t.Errorf("the namespace of oslo is being deleted: %s", why)
	}
}
