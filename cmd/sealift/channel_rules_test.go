package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
)

func readCases(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// testChannelReplaces puts the old side of every row onto the cluster and the new side into an index. An entry without a
// version gets the generation of this tool, so that rows about others cannot occur.
func testChannelReplaces(c *channelCluster) {
	for _, file := range []string{"replaces_seed_rule.json", "replaces_head_rule.json"} {
		var table struct {
			Cases []struct {
				Existing json.RawMessage
				New      channel.Record
				Replaces bool
				Why      string
			}
		}
		readCases(c, "../../channel/testdata/"+file, &table)
		var entries []string
		want := map[string]channel.Action{}
		for i, tt := range table.Cases {
			name := fmt.Sprintf("row-%d", i)
			if tt.New.Version == nil && tt.New.SystemGeneration != 1 && file == "replaces_head_rule.json" {
				continue
			}
			content, err := json.Marshal(map[string]any{"name": name, "version": tt.New.Version, "id": tt.New.ID, "manifestHash": tt.New.ManifestHash, "manifest": "a.yaml"})
			if err != nil {
				c.Fatal(err)
			}
			if strings.HasPrefix(tt.Why, "new version unparseable") || tt.New.Version != nil && (*tt.New.Version == "latest" || *tt.New.Version == "") {
				bad := c.index("bad.yaml", string(content))
				if code, _, errOut := c.sealift("plan", "-f", bad); code != app.ExitFailed || !strings.Contains(errOut, fmt.Sprintf("addon %q has unparseable version %q", name, *tt.New.Version)) {
					c.Errorf("%s: exit code %d: %s", content, code, errOut)
				}
				continue
			}
			c.record("kube-system", name, string(tt.Existing))
			entries = append(entries, string(content))
			want[name] = channel.Keep
			if tt.Replaces {
				want[name] = channel.Update
			}
		}
		if len(want) < 15 {
			c.Fatalf("only %d rows of %s were tried", len(want), file)
		}
		plan := c.plan("-f", c.index(file+".yaml", entries...))
		if len(plan.Addons) != len(want) {
			c.Errorf("%d decisions, want %d", len(plan.Addons), len(want))
		}
		for _, d := range plan.Addons {
			if d.Action != want[d.Entry.Name] {
				c.Errorf("%s %s: %s (%s), want %s", file, d.Entry.Name, d.Action, d.Reason, want[d.Entry.Name])
			}
		}
		c.clear()
	}
}

func testChannelRanges(c *channelCluster) {
	var table struct {
		Cases []struct {
			KubernetesVersion, ServerGitVersion, RangeError string
			Matches                                         bool
		}
	}
	readCases(c, "../../channel/testdata/kubernetes_version_range.json", &table)
	for i, tt := range table.Cases {
		file := c.index("addons.yaml", fmt.Sprintf("{name: row, manifest: a.yaml, kubernetesVersion: %q}", tt.KubernetesVersion))
		c.gitVersion.Store(&tt.ServerGitVersion)
		for _, plan := range []channel.Plan{c.plan("-f", file), c.plan("-f", file, "--kubernetes-version", tt.ServerGitVersion)} {
			if (len(plan.Addons) == 1) != tt.Matches || len(plan.Addons)+len(plan.Skipped) != 1 {
				c.Errorf("row %d, %s in %q: %+v", i, tt.ServerGitVersion, tt.KubernetesVersion, plan)
			}
			if tt.RangeError != "" && (len(plan.Skipped) != 1 || !plan.Skipped[0].Warning || !strings.Contains(plan.Skipped[0].Reason, tt.RangeError)) {
				c.Errorf("row %d, %q: %+v", i, tt.KubernetesVersion, plan.Skipped)
			}
		}
	}
	_, _, errOut := c.sealift("apply", "-f", c.index("addons.yaml", `{name: row, manifest: a.yaml, kubernetesVersion: ">=1.6"}`), "--yes")
	if !strings.Contains(errOut, "an entry is skipped") {
		c.Errorf("no warning: %s", errOut)
	}
}

// testChannelHealth applies each object of the table after it was given its status, as a controller does it.
func testChannelHealth(c *channelCluster) {
	var table struct {
		Cases []struct {
			Name    string
			Object  map[string]any
			Healthy bool
		}
	}
	readCases(c, "../../channel/testdata/kops-health.json", &table)
	c.must("apply", "-f", c.write("definitions.yaml", definition("widgets", "Widget", "example.com", "v1", "Namespaced")+
		definition("gateways", "Gateway", "gateway.networking.k8s.io", "v1", "Namespaced")+
		definition("gatewayclasses", "GatewayClass", "gateway.networking.k8s.io", "v1", "Cluster")+
		definition("scaledobjects", "ScaledObject", "keda.sh", "v1alpha1", "Namespaced")), "--yes")
	for i, tt := range table.Cases {
		obj := unstructured.Unstructured{Object: tt.Object}
		name := fmt.Sprintf("health-%d", i)
		resource := map[string]string{"ConfigMap": "v1/configmaps", "Deployment": "apps/v1/deployments", "Widget": "example.com/v1/widgets",
			"Gateway": "gateway.networking.k8s.io/v1/gateways", "GatewayClass": "gateway.networking.k8s.io/v1/gatewayclasses",
			"ScaledObject": "keda.sh/v1alpha1/scaledobjects"}[obj.GetKind()]
		file := ""
		switch obj.GetKind() {
		case "CustomResourceDefinition":
			// The API server itself rejects names that another definition has.
			file = c.write(name+".yaml", strings.Replace(definition("gizmos", "Widget", "example.com", "v1", "Namespaced"), "---\n", "", 1))
		default:
			obj.SetName(name)
			if obj.GetKind() != "GatewayClass" {
				obj.SetNamespace("kube-system")
			}
			if obj.GetKind() == "Deployment" {
				labels := map[string]any{"app": name}
				obj.Object["spec"] = map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
					"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}}
			}
			status := obj.Object["status"]
			delete(obj.Object, "status")
			content, err := json.Marshal(obj.Object)
			if err != nil {
				c.Fatal(err)
			}
			file = c.write(name+".yaml", string(content))
			c.create(resource, string(content))
			if status != nil {
				patch, err := json.Marshal(map[string]any{"status": status})
				if err != nil {
					c.Fatal(err)
				}
				c.patch(resource, obj.GetNamespace(), name, string(patch), "status")
			}
		}
		index := c.index("addons.yaml", fmt.Sprintf("{name: %s, version: 1.0.0, manifest: %s.yaml}", name, name))
		code, out, errOut := c.sealift("apply", "-f", index, "--yes")
		recorded := c.recorded("kube-system", name) != ""
		if healthy := code == app.ExitDone; healthy != tt.Healthy || recorded != tt.Healthy {
			c.Errorf("%s (%s): exit code %d, recorded %v, want healthy %v\n%s%s", tt.Name, file, code, recorded, tt.Healthy, out, errOut)
		}
		if !tt.Healthy && !strings.Contains(errOut, "not all objects were") {
			c.Errorf("%s: %s", tt.Name, errOut)
		}
	}
	c.clear()
}

// definition returns kind as a resource with a status.
func definition(plural, kind, group, version, scope string) string {
	approved := ""
	if strings.HasSuffix(group, ".k8s.io") {
		approved = ", annotations: {api-approved.kubernetes.io: 'https://example.com/test'}"
	}
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[3]s%[6]s}
spec:
  group: %[3]s
  scope: %[5]s
  names: {plural: %[1]s, kind: %[2]s}
  versions:
  - name: %[4]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, kind, group, version, scope, approved)
}
