package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/ocm"
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

// TestAddOnIsRolledOut follows the seed on three clusters with agents, and then an add-on from its installation to its end on two.
func TestAddOnIsRolledOut(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "oslo", "rome", "cluster1")
	g.seed()
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

	t.Log("an agent sees its own cluster only")
	g.cannot("oslo", "rome")
	t.Log("a hub that starts again writes nothing")
	g.settled()

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
	g.removeAddOn("hello")

	t.Log("an add-on waits for another one")
	g.order()
	t.Log("two add-ons want one object")
	g.conflict()
	t.Log("another cluster hosts an agent")
	g.hosting()
	t.Log("a hosted agent renews its Lease on another cluster")
	g.hostedLeases()
	t.Log("an agent gets certificates and rights on the hub")
	g.registration()
}

// cannot requests objects of another cluster, or of the hub, with the rights of one cluster's agent.
func (g *grid) cannot(cluster, other string) {
	cfg := rest.CopyConfig(g.agents[cluster])
	client, err := dynamic.NewForConfig(cfg)
	g.must(err)
	works := ocm.WorkVersion.WithResource("manifestworks")
	if _, err := client.Resource(works).Namespace(cluster).List(g.Context(), metav1.ListOptions{}); err != nil {
		g.Errorf("its own works: %v", err)
	}
	for what, err := range map[string]error{
		"works of another cluster":   second(client.Resource(works).Namespace(other).List(g.Context(), metav1.ListOptions{})),
		"works of all clusters":      second(client.Resource(works).List(g.Context(), metav1.ListOptions{})),
		"another cluster":            second(client.Resource(ocm.ClusterVersion.WithResource("managedclusters")).Get(g.Context(), other, metav1.GetOptions{})),
		"add-ons of another cluster": second(client.Resource(ocm.AddOnVersion.WithResource("managedclusteraddons")).Namespace(other).List(g.Context(), metav1.ListOptions{})),
		"its own taints":             second(client.Resource(ocm.ClusterVersion.WithResource("managedclusters")).Patch(g.Context(), cluster, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})),
		"a new work for itself":      second(client.Resource(works).Namespace(cluster).Create(g.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": map[string]any{"name": "mine"}}}, metav1.CreateOptions{})),
		"Secrets":                    second(client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(cluster).List(g.Context(), metav1.ListOptions{})),
	} {
		if !apierrors.IsForbidden(err) {
			g.Errorf("%s: %v", what, err)
		}
	}
	g.mayOnlyReport(client, cluster)
}

// mayOnlyReport changes works and add-ons with the credentials of the cluster's own agent. The policies refuse objects that the
// hub would sign or believe.
func (g *grid) mayOnlyReport(client dynamic.Interface, cluster string) {
	works := client.Resource(ocm.WorkVersion.WithResource("manifestworks")).Namespace(cluster)
	work := func(patch string, subresources ...string) error {
		_, err := works.Patch(g.Context(), "addon-hello-deploy-0", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		return err
	}
	addOn := func(version, patch string) error {
		resource := schema.GroupVersionResource{Group: ocm.AddOnVersion.Group, Version: version, Resource: "managedclusteraddons"}
		_, err := client.Resource(resource).Namespace(cluster).Patch(g.Context(), "hello", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	stolen := `{"status":{"configReferences":[{"group":"addon.open-cluster-management.io","resource":"addontemplates","name":"x","lastObservedGeneration":1}]}}`
	for what, err := range map[string]error{
		"spec":               work(`{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"mine","namespace":"default"}}]}}}`),
		"delete option":      work(`{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}}}`),
		"signature":          work(`{"metadata":{"annotations":{"fleet.sealift.dev/signature":"x"}}}`),
		"labels":             work(`{"metadata":{"labels":{"open-cluster-management.io/addon-name":"x"}}}`),
		"owners":             work(`{"metadata":{"ownerReferences":[]}}`),
		"template":           addOn("v1alpha1", stolen),
		"template, v1beta1":  addOn("v1beta1", strings.Replace(stolen, `"name":"x",`, `"desiredConfig":{"name":"x","specHash":"y"},`, 1)),
		"supported":          addOn("v1alpha1", `{"status":{"supportedConfigs":[{"group":"","resource":"secrets"}]}}`),
		"all its references": addOn("v1alpha1", `{"status":{"configReferences":null}}`),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "fleet.sealift.dev' with binding") {
			g.Errorf("an agent changes %s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"finalizers":                work(`{"metadata":{"finalizers":["cluster.open-cluster-management.io/manifest-work-cleanup"]}}`),
		"status":                    work(`{"status":{"resourceStatus":{}}}`, "status"),
		"the health of an add-on":   addOn("v1alpha1", `{"status":{"healthCheck":{"mode":"Customized"}}}`),
		"its health, as in v1beta1": addOn("v1beta1", `{"status":{"healthCheck":{"mode":"Customized"}}}`),
	} {
		if err != nil {
			g.Errorf("an agent cannot report %s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// versions has the resourceVersion of each object of the fleet, except those that agents and the Lease keep renewing.
func (g *grid) versions() map[string]string {
	all := make(map[string]string)
	client, err := dynamic.NewForConfig(g.cfg)
	g.must(err)
	for _, r := range []schema.GroupVersionResource{
		ocm.AddOnVersion.WithResource("clustermanagementaddons"), ocm.AddOnVersion.WithResource("managedclusteraddons"),
		ocm.WorkVersion.WithResource("manifestworks"), ocm.ClusterVersion.WithResource("managedclusters"),
		{Group: ocm.ClusterVersion.Group, Version: "v1beta1", Resource: "placements"}, {Group: ocm.ClusterVersion.Group, Version: "v1beta1", Resource: "placementdecisions"},
		{Version: "v1", Resource: "configmaps"}, {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	} {
		list, err := client.Resource(r).List(g.Context(), metav1.ListOptions{})
		g.must(err)
		for _, o := range list.Items {
			// the webhook's address changes after a restart
			if r.Resource != "customresourcedefinitions" {
				all[r.Resource+"/"+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return all
}

// settled restarts the hub of a fleet in which nothing changes, and compares all objects.
func (g *grid) settled() {
	for _, cluster := range []string{"rome", "oslo"} {
		g.eventually(cluster+" is labelled", func() string {
			var c ocm.ManagedCluster
			if err := g.client.Get(g.Context(), types.NamespacedName{Name: cluster}, &c); err != nil {
				return err.Error()
			}
			if got := c.Labels["feature.open-cluster-management.io/addon-hello"]; got != "available" {
				return "its label is " + got
			}
			return ""
		})
	}
	g.eventually("the add-on is complete", func() string {
		var a ocm.ClusterManagementAddOn
		if err := g.client.Get(g.Context(), types.NamespacedName{Name: "hello"}, &a); err != nil {
			return err.Error()
		}
		if p := a.Status.InstallProgressions; len(p) != 1 || !meta.IsStatusConditionFalse(p[0].Conditions, "Progressing") {
			return fmt.Sprintf("%+v", p)
		}
		return ""
	})
	time.Sleep(time.Second) // whatever is in transit
	before := g.versions()
	g.stops["hub"]()
	g.startHub()
	time.Sleep(2 * time.Second) // one pass over all add-ons takes less
	if diff := cmp.Diff(before, g.versions()); diff != "" {
		g.Errorf("a hub that starts again wrote (-before +after):\n%s", diff)
	}
}

var jobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// finish lets a Job of a cluster succeed.
func (g *grid) finish(cluster, name string) (why string) {
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	return g.end(cluster, name, map[string]any{"startTime": now, "completionTime": now, "succeeded": int64(1), "conditions": []any{
		map[string]any{"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
		map[string]any{"type": "Complete", "status": "True", "lastTransitionTime": now},
	}})
}

// fail lets a Job of a cluster fail.
func (g *grid) fail(cluster, name string) (why string) {
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	return g.end(cluster, name, map[string]any{"startTime": now, "failed": int64(1), "conditions": []any{
		map[string]any{"type": "FailureTarget", "status": "True", "lastTransitionTime": now},
		map[string]any{"type": "Failed", "status": "True", "lastTransitionTime": now, "message": "it has no more tries"},
	}})
}

func (g *grid) end(cluster, name string, status map[string]any) (why string) {
	client := g.clusters[cluster].Resource(jobs).Namespace("default")
	job, err := client.Get(g.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	job.Object["status"] = status
	if _, err := client.UpdateStatus(g.Context(), job, metav1.UpdateOptions{}); err != nil {
		return err.Error()
	}
	return ""
}

// removeAddOn deletes an add-on with the objects of hello, and lets its hooks succeed.
func (g *grid) removeAddOn(name string) {
	cma := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": map[string]any{"name": name}}}
	g.must(g.client.Delete(g.Context(), cma))
	for cluster := range g.clusters {
		g.eventually("the hook runs on "+cluster, func() string { return g.finish(cluster, "clean") })
	}
	for cluster := range g.clusters {
		g.eventually("the add-on is gone from "+cluster, func() string {
			if g.exists(cluster, deployments, "default", "hello") != nil {
				return "the Deployment is there"
			}
			if g.exists(cluster, jobs, "default", "clean") != nil {
				return "the Job is there"
			}
			return ""
		})
		if g.exists(cluster, configMaps, "default", "stays") == nil {
			g.Errorf("%s: the orphan is gone", cluster)
		}
	}
	g.eventually("the hub is clean", func() string {
		if left := g.dump(); len(left) > 0 && (strings.Contains(left, "/"+name+" deleted") || strings.Contains(left, "/addon-"+name)) {
			return "something is left"
		}
		return ""
	})
}
