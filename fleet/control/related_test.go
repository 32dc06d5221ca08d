package control_test

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/fleet/ocm"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// small is an add-on that is installed by hand. Its one object is a ConfigMap.
func small(name, annotations, object, extra string) string {
	return fmt.Sprintf(`
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: %[1]s}
spec:
  addonName: %[1]s
  agentSpec:
    workload:
      manifests:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: %[3]s, namespace: default}, data: {owner: %[1]s}}
%[4]s
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: %[1]s, annotations: {%[2]s}}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: %[1]s}}
`, name, annotations, object, extra)
}

// on installs an add-on on a cluster.
func on(name, cluster, annotations string) string {
	return fmt.Sprintf(`
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: %s, namespace: %s, annotations: {%s}}
spec: {}
`, name, cluster, annotations)
}

// says waits for a condition whose message has some text.
func (g *grid) says(cluster, addOn, kind, want, text string) {
	g.Helper()
	g.eventually(addOn+" on "+cluster+" has "+kind, func() string {
		if why := g.has(cluster, addOn, kind, want); why != "" {
			return why
		}
		var a ocm.ManagedClusterAddOn
		if err := g.client.Get(g.Context(), types.NamespacedName{Namespace: cluster, Name: addOn}, &a); err != nil {
			return err.Error()
		}
		if c := meta.FindStatusCondition(a.Status.Conditions, kind); !strings.Contains(c.Message, text) {
			return "it says " + c.Message
		}
		return ""
	})
}

func (g *grid) there(cluster, name string) func() string {
	return func() string {
		if g.exists(cluster, configMaps, "default", name) == nil {
			return "the ConfigMap is not there"
		}
		return ""
	}
}

func (g *grid) gone(cluster, name string) func() string {
	return func() string {
		if g.exists(cluster, configMaps, "default", name) != nil {
			return "the ConfigMap is there"
		}
		return ""
	}
}

// uninstall deletes an add-on from a cluster.
func (g *grid) uninstall(name, cluster string) {
	g.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn", "metadata": map[string]any{"name": name, "namespace": cluster}}}
	g.must(g.client.Delete(g.Context(), o))
}

// order shows that an add-on starts on a cluster once those that it requires are healthy there.
func (g *grid) order() {
	g.apply(small("app", `fleet.sealift.dev/requires: "base"`, "app", "") + "---" + on("app", "oslo", ""))
	g.says("oslo", "app", "RequirementsMet", "False/WaitsForOthers", "requires base, which does not exist: create it")
	g.apply(small("base", "", "base", ""))
	g.says("oslo", "app", "RequirementsMet", "False/WaitsForOthers", "on cluster oslo it is not installed")
	if g.exists("oslo", configMaps, "default", "app") != nil {
		g.Error("app is there before base")
	}
	g.apply(on("base", "oslo", ""))
	g.eventually("app comes after base", g.there("oslo", "app"))
	g.says("oslo", "app", "RequirementsMet", "True/RequirementsHealthy", "")
}

// conflict shows that of two add-ons with one object the first keeps it, and the second gets it when the first is removed.
func (g *grid) conflict() {
	g.apply(small("rival", "", "base", "") + "---" + on("rival", "oslo", ""))
	g.says("oslo", "rival", "Conflict", "True/OwnedByOthers", "configmaps default/base on cluster oslo belongs to add-on base: take it out of one of the two")
	owner := func() string {
		o := g.exists("oslo", configMaps, "default", "base")
		if o == nil {
			return "nobody"
		}
		text, _, _ := unstructured.NestedString(o.Object, "data", "owner")
		return text
	}
	if got := owner(); got != "base" {
		g.Errorf("the object belongs to %s", got)
	}
	g.uninstall("base", "oslo")
	g.eventually("the second add-on gets it", func() string {
		if now := owner(); now != "rival" {
			return "it belongs to " + now
		}
		return ""
	})
	g.eventually("there is no conflict", func() string {
		if why := g.has("oslo", "rival", "Conflict", ""); !strings.Contains(why, "has no condition") {
			return why
		}
		return ""
	})

	g.Log("an object of somebody else on the cluster")
	held := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "taken", "namespace": "default", "labels": map[string]any{"applyset.kubernetes.io/part-of": "applyset-somebody-v1"},
	}}}
	_, err := g.clusters["oslo"].Resource(configMaps).Namespace("default").Create(g.Context(), held, metav1.CreateOptions{})
	g.must(err)
	g.apply(small("late", "", "taken", "") + "---" + on("late", "oslo", ""))
	g.says("oslo", "late", "Conflict", "True/OwnedByOthers", "configmaps default/taken on cluster oslo: it belongs to")
}

const hostedJob = `
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: hosted-agent, namespace: default, annotations: {addon.open-cluster-management.io/hosted-manifest-location: hosting}}}
      - apiVersion: batch/v1
        kind: Job
        metadata: {name: clean-host, namespace: default, annotations: {addon.open-cluster-management.io/addon-pre-delete: "", addon.open-cluster-management.io/hosted-manifest-location: hosting}}
        spec: {template: {spec: {restartPolicy: Never, containers: [{name: clean, image: "example.com/clean:1"}]}}}
`

// hosting shows an add-on of oslo whose agent runs on rome, from its installation to its end.
func (g *grid) hosting() {
	const annotation = "addon.open-cluster-management.io/hosting-cluster-name: "
	g.apply(small("hosted", "", "hosted-own", hostedJob) + "---" + on("hosted", "oslo", annotation+"paris"))
	g.says("oslo", "hosted", "HostingClusterValidity", "False/HostingClusterInvalid", "hosting cluster paris is not a managed cluster of the hub")
	g.eventually("its own part is there", g.there("oslo", "hosted-own"))
	g.apply(on("hosted", "oslo", annotation+"rome"))
	g.eventually("its agent is on rome", g.there("rome", "hosted-agent"))
	g.says("oslo", "hosted", "HostingManifestApplied", "True/AddonManifestApplied", "")
	g.eventually("it is complete", func() string { return g.has("oslo", "hosted", "Progressing", "False/Completed") })
	if g.exists("rome", configMaps, "default", "hosted-own") != nil || g.exists("oslo", configMaps, "default", "hosted-agent") != nil {
		g.Error("a part is on the wrong cluster")
	}

	g.uninstall("hosted", "oslo")
	g.eventually("the hook fails on rome", func() string { return g.fail("rome", "clean-host") })
	g.says("oslo", "hosted", "HookManifestCompleted", "False/HookManifestFailed", "runs again until it succeeds: Job default/clean-host: it has no more tries.")
	g.eventually("the hook runs again on rome", func() string { return g.finish("rome", "clean-host") })
	g.eventually("nothing is left on oslo", g.gone("oslo", "hosted-own"))
	g.eventually("nothing is left on rome", g.gone("rome", "hosted-agent"))
	g.eventually("nothing is left on the hub", func() string {
		if left := g.dump(); strings.Contains(left, "/hosted deleted") || strings.Contains(left, "addon-hosted-") {
			return "something is left"
		}
		return ""
	})
}
