package control_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hello is an add-on with a template, a canary group, and a configuration.
const hello = `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: default}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: all, namespace: default}
spec:
  decisionStrategy:
    groupStrategy:
      decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {name: rome}}}}]
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: hello}
spec:
  addonName: hello
  agentSpec:
    workload:
      manifests:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: hello, namespace: default}
        spec:
          replicas: 1
          selector: {matchLabels: {app: hello}}
          template:
            metadata: {labels: {app: hello}}
            spec: {containers: [{name: agent, image: "example.com/hello:{{VERSION}}", args: ["{{CLUSTER_NAME}}"]}]}
      - apiVersion: v1
        kind: ConfigMap
        metadata: {name: stays, namespace: default, annotations: {addon.open-cluster-management.io/deletion-orphan: ""}}
        data: {cluster: "{{CLUSTER_NAME}}"}
      - apiVersion: batch/v1
        kind: Job
        metadata: {name: clean, namespace: default, annotations: {addon.open-cluster-management.io/addon-pre-delete: ""}}
        spec: {template: {spec: {restartPolicy: Never, containers: [{name: clean, image: "example.com/clean:1"}]}}}
`

// config is the configuration of hello in one version.
const config = `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: hello, namespace: default}
spec: {agentInstallNamespace: "", customizedVariables: [{name: VERSION, value: %q}]}
`

const addOn = `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: hello}}
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, defaultConfig: {name: hello, namespace: default}}
  installStrategy:
    type: Placements
    placements:
    - name: all
      namespace: default
      rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1, mandatoryDecisionGroups: [{groupName: canary}]}}
`

// image returns the image of hello on a cluster.
func (g *grid) image(cluster string) string {
	o := g.exists(cluster, deployments, "default", "hello")
	if o == nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	return fmt.Sprint(list[0].(map[string]any)["image"])
}

// TestAddOnIsRolledOut follows an add-on from its installation to its end, on two clusters with agents.
func TestAddOnIsRolledOut(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "oslo", "rome")
	g.apply(hello + "---" + fmt.Sprintf(config, "1") + "---" + addOn)
	g.eventually("the canary gets the add-on first", func() string {
		if g.image("rome") != "example.com/hello:1" {
			return "rome has " + g.image("rome")
		}
		return ""
	})
	if got := g.image("oslo"); got != "" {
		t.Fatalf("oslo has %s before the canary is ready", got)
	}
	for _, cluster := range []string{"rome", "oslo"} {
		g.eventually(cluster+" is deployed", func() string { return g.ready(cluster, "default", "hello", 1) })
		g.eventually(cluster+" is available", func() string { return g.has(cluster, "hello", "Available", "True/ProbeAvailable") })
	}
	g.eventually("oslo is complete", func() string { return g.has("oslo", "hello", "Progressing", "False/Completed") })

	t.Log("a configuration that breaks the add-on stays on the canary")
	g.apply(fmt.Sprintf(config, "2"))
	g.eventually("rome has 2", func() string {
		if g.image("rome") != "example.com/hello:2" {
			return g.image("rome")
		}
		return g.has("oslo", "hello", "Configured", "False/ConfigurationsNotConfigured")
	})
	// the old pod is ready, the new one crashes
	g.eventually("rome is not done", func() string { return g.has("rome", "hello", "Progressing", "True/Progressing") })
	g.eventually("crash", func() string { return g.ready("rome", "default", "hello", 0) })
	g.eventually("rome is broken", func() string { return g.has("rome", "hello", "Available", "False/ProbeUnavailable") })
	if got := g.image("oslo"); got != "example.com/hello:1" {
		t.Errorf("oslo has %s, though the canary is broken", got)
	}
	t.Log("the old configuration heals it")
	g.apply(fmt.Sprintf(config, "1"))
	g.eventually("heal", func() string { return g.ready("rome", "default", "hello", 1) })
	for _, cluster := range []string{"rome", "oslo"} {
		g.eventually(cluster+" is well", func() string {
			if why := g.has(cluster, "hello", "Available", "True/ProbeAvailable"); why != "" {
				return why
			}
			if got := g.image(cluster); got != "example.com/hello:1" {
				return got
			}
			return g.has(cluster, "hello", "Configured", "True/ConfigurationsConfigured")
		})
	}

	t.Log("the add-on is removed")
	g.remove()
}

// remove deletes the add-on, and lets its hooks succeed.
func (g *grid) remove() {
	cma := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": map[string]any{"name": "hello"}}}
	g.must(g.client.Delete(g.Context(), cma))
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	for name, cluster := range g.clusters {
		g.eventually("the hook runs on "+name, func() string {
			client := cluster.Resource(jobs).Namespace("default")
			job, err := client.Get(g.Context(), "clean", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
			job.Object["status"] = map[string]any{"startTime": now, "completionTime": now, "succeeded": int64(1), "conditions": []any{
				map[string]any{"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
				map[string]any{"type": "Complete", "status": "True", "lastTransitionTime": now},
			}}
			if _, err := client.UpdateStatus(g.Context(), job, metav1.UpdateOptions{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	for name := range g.clusters {
		g.eventually("the add-on is gone from "+name, func() string {
			if g.exists(name, deployments, "default", "hello") != nil {
				return "the Deployment is there"
			}
			if g.exists(name, jobs, "default", "clean") != nil {
				return "the Job is there"
			}
			return ""
		})
		if g.exists(name, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "default", "stays") == nil {
			g.Errorf("%s: the orphan is gone", name)
		}
	}
	g.eventually("the hub is clean", func() string {
		if left := g.dump(); len(left) > 0 && (strings.Contains(left, "/hello deleted") || strings.Contains(left, "/addon-hello")) {
			return "something is left"
		}
		return ""
	})
}
