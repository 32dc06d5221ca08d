package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ocm"
)

// seedKind is a kind of configuration that the hub does not know, and the right to read it.
const seedKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: exampleconfigs.example.open-cluster-management.io}
spec:
  group: example.open-cluster-management.io
  scope: Namespaced
  names: {kind: ExampleConfig, listKind: ExampleConfigList, plural: exampleconfigs, singular: exampleconfig}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: examples, labels: {fleet.sealift.dev/aggregate-to-hub: "true"}}
rules:
- {apiGroups: [example.open-cluster-management.io], resources: [exampleconfigs], verbs: [get, list, watch]}
---
apiVersion: v1
kind: Namespace
metadata: {name: open-cluster-management}
`

// seedConfigs are the configurations of the seed, with the image that each one stands for.
func seedConfigs() string {
	var text strings.Builder
	for name, version := range map[string]string{"default-deploy-config": "default", "deploy-config": "placement", "cluster1-deploy-config": "own"} {
		fmt.Fprintf(&text, "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: AddOnDeploymentConfig\nmetadata: {name: %s, namespace: open-cluster-management}\n"+
			"spec: {agentInstallNamespace: \"\", customizedVariables: [{name: VERSION, value: %s}]}\n---\n", name, version)
	}
	for _, name := range []string{"default-example-config", "example-config-1", "example-config-2", "cluster1-example-config"} {
		fmt.Fprintf(&text, "apiVersion: example.open-cluster-management.io/v1\nkind: ExampleConfig\nmetadata: {name: %s, namespace: open-cluster-management}\nspec: {of: %[1]s}\n---\n", name)
	}
	return text.String()
}

// seedPlacement selects the clusters with a claim, in the groups that the seed's rollout names.
const seedPlacement = `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: default}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: placement-aws, namespace: default}
spec:
  predicates:
  - requiredClusterSelector: {claimSelector: {matchExpressions: [{key: platform.open-cluster-management.io, operator: In, values: [aws]}]}}
  decisionStrategy:
    groupStrategy:
      decisionGroups:
      - {groupName: prod-canary-west, groupClusterSelector: {labelSelector: {matchLabels: {name: rome}}}}
      - {groupName: prod-canary-east, groupClusterSelector: {labelSelector: {matchLabels: {name: oslo}}}}
`

// seedAddOn is the add-on of the seed, with more of its spec.
func seedAddOn(more string) string {
	return `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: helloworld, annotations: {addon.open-cluster-management.io/lifecycle: addon-manager}}
spec:
  addOnMeta: {displayName: helloworld}
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: helloworld}}
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, defaultConfig: {name: default-deploy-config, namespace: open-cluster-management}}
  - {group: example.open-cluster-management.io, resource: exampleconfigs, defaultConfig: {name: default-example-config, namespace: open-cluster-management}}
` + more
}

const (
	seedStrategy = `  installStrategy:
    type: Placements
    placements:
    - name: placement-aws
      namespace: default
`
	// the seed soaks for five minutes
	seedRollout = seedStrategy + `      configs:
      - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, name: deploy-config, namespace: open-cluster-management}
      - {group: example.open-cluster-management.io, resource: exampleconfigs, name: example-config-1, namespace: open-cluster-management}
      - {group: example.open-cluster-management.io, resource: exampleconfigs, name: example-config-2, namespace: open-cluster-management}
      rolloutStrategy:
        type: Progressive
        progressive:
          mandatoryDecisionGroups: [{groupName: prod-canary-west}, {groupName: prod-canary-east}]
          maxConcurrency: 25%
          minSuccessTime: 1s
          progressDeadline: 10m
          maxFailures: 2
`
	seedManual = `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: helloworld, namespace: cluster1}
spec:
  installNamespace: helloworld
`
	seedOwn = seedManual + `  configs:
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, name: cluster1-deploy-config, namespace: open-cluster-management}
  - {group: example.open-cluster-management.io, resource: exampleconfigs, name: cluster1-example-config, namespace: open-cluster-management}
`
)

// seed follows the document that the fleet started from, from the registration of the add-on to its removal, on three clusters. In
// the end all four API servers have the objects that they had before.
func (g *grid) seed() {
	for cluster := range g.clusters {
		claim := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
			"metadata": map[string]any{"name": "platform.open-cluster-management.io"}, "spec": map[string]any{"value": "aws"}}}
		_, err := g.clusters[cluster].Resource(schema.GroupVersionResource{Group: ocm.ClusterVersion.Group, Version: "v1alpha1", Resource: "clusterclaims"}).Create(g.Context(), claim, metav1.CreateOptions{})
		g.must(err)
	}
	g.apply(seedKind)
	template := hello[strings.Index(hello, "apiVersion: addon"):]
	template = strings.Replace(strings.Replace(template, "metadata: {name: hello}", "metadata: {name: helloworld}", 1), "addonName: hello", "addonName: helloworld", 1)
	g.eventually("the kind of the example is served", func() string {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.open-cluster-management.io/v1", "kind": "ExampleConfig"}}
		if err := g.client.Get(g.Context(), types.NamespacedName{Namespace: "open-cluster-management", Name: "x"}, o); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	g.apply(seedConfigs() + seedPlacement + "---\n" + template)
	before := g.everywhere()

	g.Log("seed: registered, enabled by hand, healthy")
	g.apply(seedAddOn(""))
	g.apply(seedManual)
	g.seedRuns("cluster1", "default")
	for _, cluster := range []string{"oslo", "rome"} {
		if why := g.has(cluster, "helloworld", "Available", ""); !strings.Contains(why, "not found") {
			g.Errorf("nobody enabled it on %s: %s", cluster, why)
		}
	}
	g.Log("seed: enabled by a placement with a claim")
	g.apply(seedAddOn(seedStrategy))
	g.seedRuns("rome", "default")
	g.seedRuns("oslo", "default")
	g.Log("seed: a configuration per placement, in the west, in the east, and then on the others")
	g.apply(seedAddOn(seedRollout))
	g.eventually("the set of the placement is bound, and has clusters", func() string {
		var set ocm.ManagedClusterSet
		var binding ocm.ManagedClusterSetBinding
		err := errors.Join(g.client.Get(g.Context(), types.NamespacedName{Name: "global"}, &set),
			g.client.Get(g.Context(), types.NamespacedName{Namespace: "default", Name: "global"}, &binding))
		empty, bound := meta.FindStatusCondition(set.Status.Conditions, "ClusterSetEmpty"), meta.FindStatusCondition(binding.Status.Conditions, "Bound")
		if err != nil || empty == nil || empty.Status != metav1.ConditionFalse || bound == nil || bound.Status != metav1.ConditionTrue {
			return fmt.Sprintf("%+v %+v %v", empty, bound, err)
		}
		return ""
	})
	const stranger = "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: stranger}\nspec: {hubAcceptsClient: false}\n"
	g.apply(stranger)
	g.eventually("a cluster that nobody accepted has the taint, and no namespace", func() string {
		cluster := &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}
		err := g.client.Get(g.Context(), types.NamespacedName{Name: "stranger"}, cluster)
		if err != nil || len(cluster.Spec.Taints) != 1 || cluster.Spec.Taints[0].Key != "cluster.open-cluster-management.io/unreachable" {
			return fmt.Sprintf("%+v %v", cluster.Spec.Taints, err)
		}
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		if err := g.client.Get(g.Context(), types.NamespacedName{Name: "stranger"}, namespace); !apierrors.IsNotFound(err) {
			return fmt.Sprint("its namespace: ", err)
		}
		g.must(g.client.Delete(g.Context(), cluster))
		return ""
	})
	g.eventually("the west has it", func() string { return g.seedHas("rome", "placement") })
	for _, cluster := range []string{"rome", "oslo", "cluster1"} {
		for _, later := range map[string][]string{"rome": {"oslo", "cluster1"}, "oslo": {"cluster1"}}[cluster] {
			if why := g.seedHas(later, "default"); why != "" {
				g.Errorf("%s does not wait for %s: %s", later, cluster, why)
			}
		}
		g.seedRuns(cluster, "placement")
	}
	g.Log("seed: a configuration per cluster")
	g.apply(seedOwn + "---" + strings.Replace(seedOwn, "namespace: cluster1", "namespace: rome", 1))
	g.seedRuns("rome", "own") // a canary of the rollout
	g.seedRuns("cluster1", "own")
	g.seedRuns("oslo", "placement")
	g.effective("cluster1", "cluster1-deploy-config", "cluster1-example-config")
	g.effective("rome", "cluster1-deploy-config", "cluster1-example-config")
	g.effective("oslo", "deploy-config", "example-config-1", "example-config-2")

	g.Log("seed: removed from the hub and from all clusters")
	g.removeAddOn("helloworld")
	left := make(map[string]string)
	g.eventually("all four API servers have what they had", func() string {
		after := g.everywhere()
		for object, text := range after {
			if _, had := before[object]; !had && strings.HasSuffix(object, " configmaps default/stays") {
				left[object] = text
				delete(after, object)
			}
		}
		return cmp.Diff(before, after)
	})
	if len(left) != 3 {
		g.Errorf("the orphans are %v", left)
	}
	g.Logf("%d objects on four API servers are as before; the orphan of each cluster is there", len(before))
	for _, client := range g.clusters {
		g.must(client.Resource(configMaps).Namespace("default").Delete(g.Context(), "stays", metav1.DeleteOptions{}))
	}
	g.leave("cluster1")
}

// leave ends a cluster's part in the fleet.
func (g *grid) leave(cluster string) {
	g.stops[cluster]()
	delete(g.clusters, cluster)
	name := types.NamespacedName{Name: cluster}
	g.must(g.client.Delete(g.Context(), &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}))
	g.eventually(cluster+" is gone", func() string {
		if err := g.client.Get(g.Context(), name, &ocm.ManagedCluster{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

func (g *grid) seedHas(cluster, version string) string {
	if got := g.image(cluster); got != "example.com/hello:"+version {
		return fmt.Sprintf("%s has %q", cluster, got)
	}
	return ""
}

// seedRuns waits until the add-on runs on a cluster with a configuration, and is healthy.
func (g *grid) seedRuns(cluster, version string) {
	g.Helper()
	g.eventually(cluster+" has "+version, func() string { return g.seedHas(cluster, version) })
	g.eventually(cluster+" is deployed", func() string { return g.ready(cluster, "default", "hello", 1) })
	g.eventually(cluster+" is available", func() string { return g.has(cluster, "helloworld", "Available", "True/ProbeAvailable") })
	g.eventually(cluster+" is complete", func() string { return g.has(cluster, "helloworld", "Progressing", "False/Completed") })
}

// effective says which configurations a cluster has, and which of them were applied.
func (g *grid) effective(cluster string, want ...string) {
	g.Helper()
	g.eventually("the effective configurations of "+cluster, func() string {
		var a ocm.ManagedClusterAddOn
		if err := g.client.Get(g.Context(), types.NamespacedName{Namespace: cluster, Name: "helloworld"}, &a); err != nil {
			return err.Error()
		}
		var got []string
		for _, r := range a.Status.ConfigReferences {
			if r.DesiredConfig == nil || r.DesiredConfig.SpecHash == "" || r.LastAppliedConfig == nil || *r.LastAppliedConfig != *r.DesiredConfig {
				return fmt.Sprintf("%+v was not applied", r.ConfigReference)
			}
			if r.Resource != "addontemplates" {
				got = append(got, r.DesiredConfig.Name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return diff
		}
		if len(a.Status.SupportedConfigs) != 3 {
			return fmt.Sprintf("it supports %v", a.Status.SupportedConfigs)
		}
		return ""
	})
}

// everywhere returns the objects of all API servers when two consecutive reads are equal. Heartbeats are left out, and so are the
// numbers of signatures, which are never reused.
func (g *grid) everywhere() (all map[string]string) {
	g.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		last := all
		all = make(map[string]string)
		for name, cfg := range g.configs {
			g.objectsOf(name, cfg, all)
		}
		if cmp.Equal(last, all) {
			return all
		}
	}
	g.Fatal("the API servers do not come to rest")
	return nil
}

func (g *grid) objectsOf(server string, cfg *rest.Config, all map[string]string) {
	g.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).ServerPreferredResources()
	g.must(err)
	client, err := dynamic.NewForConfig(cfg)
	g.must(err)
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		g.must(err)
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || slices.Contains([]string{"leases", "events", "componentstatuses"}, kind.Name) {
				continue
			}
			list, err := client.Resource(version.WithResource(kind.Name)).List(g.Context(), metav1.ListOptions{})
			g.must(err)
			for _, o := range list.Items {
				if slices.Contains([]string{agent.Namespace, hub.DefaultNamespace}, o.GetNamespace()) && strings.HasPrefix(o.GetName(), "sealift-fleet-sequence") {
					continue
				}
				for _, field := range []string{"managedFields", "generation", "resourceVersion"} {
					unstructured.RemoveNestedField(o.Object, "metadata", field)
				}
				delete(o.Object, "status")
				text, err := json.Marshal(o.Object)
				g.must(err)
				all[strings.TrimSpace(server+" "+group.GroupVersion)+" "+kind.Name+" "+o.GetNamespace()+"/"+o.GetName()] = string(text)
			}
		}
	}
}
