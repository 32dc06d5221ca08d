package template_test

import (
	"encoding/json"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/testgrid/cases"
)

// TestDeploymentConfigRows has what upstream hands to charts of add-ons. Here the same goes into pods.
func TestDeploymentConfigRows(t *testing.T) {
	type row struct {
		AddOnObjs      []struct{ Spec ocm.AddOnDeploymentConfigSpec }
		ExpectedValues map[string]any
	}
	for _, r := range cases.Rows[row](t, "fleet/ocm/addon_framework_addonfactory__addondeploymentconfig__TestGetAddOnDeploymentConfigValues.json") {
		var config ocm.AddOnDeploymentConfigSpec
		for _, o := range r.Case.AddOnObjs {
			if o.Spec.NodePlacement != nil || o.Spec.CustomizedVariables != nil {
				config = o.Spec
			}
		}
		deployment := map[string]any{"kind": "Deployment", "spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}
		pod := render(t, deployment, config)["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		global, _ := r.Case.ExpectedValues["global"].(map[string]any)
		if want := global["nodeSelector"]; want != nil {
			same(t, r.Name, pod["nodeSelector"], want)
		}
		if want := r.Case.ExpectedValues["tolerations"]; want != nil {
			same(t, r.Name, pod["tolerations"], want)
		}
		_, all := template.Variables(template.Input{Config: config})
		for _, v := range config.CustomizedVariables {
			if want, found := r.Case.ExpectedValues[v.Name]; found {
				same(t, r.Name+" "+v.Name, all[v.Name], want)
			}
		}
	}
}

func TestInstallNamespaceRows(t *testing.T) {
	type row struct {
		AddonDeploymentConfig *struct{ Spec ocm.AddOnDeploymentConfigSpec }
		AddonTemplate         *struct{ Spec ocm.AddOnTemplateSpec }
		Expected, ExpectedErr string
	}
	for _, r := range cases.Rows[row](t, "fleet/ocm/ocm_addon_templateagent__template_agent__TestAgentInstallNamespace.json") {
		if r.Case.AddonTemplate == nil || r.Case.ExpectedErr != "" {
			continue // without a template nothing is rendered
		}
		in := template.Input{AddOn: "hello", Cluster: "cluster1", Template: r.Case.AddonTemplate.Spec}
		if c := r.Case.AddonDeploymentConfig; c != nil {
			in.Config = c.Spec
		}
		manifests, err := template.Render(in)
		if err != nil {
			t.Fatal(r.Name, err)
		}
		if got := template.InstallNamespace(in.Config, manifests); got != r.Case.Expected {
			t.Errorf("%s: %s, want %s", r.Name, got, r.Case.Expected)
		}
	}
}

// daemonSet is the template that a row names. Its file is not among the samples.
const daemonSet = `
agentSpec:
  workload:
    manifests:
    - kind: DaemonSet
      apiVersion: apps/v1
      metadata:
        name: hello-template-agent-ds
        namespace: open-cluster-management-agent-addon-ds
        annotations: {addon.open-cluster-management.io/deletion-orphan: ""}
        labels: {app: hello-template-agent}
      spec:
        selector: {matchLabels: {app: hello-template-agent}}
        template:
          metadata: {labels: {app: hello-template-agent}}
          spec:
            serviceAccountName: hello-template-agent-sa
            containers:
            - name: helloworld-agent
              image: quay.io/open-cluster-management/addon-examples:v1
              imagePullPolicy: IfNotPresent
              args: [/helloworld_helm, agent, "--cluster-name={{CLUSTER_NAME}}", --addon-namespace=open-cluster-management-agent-addon-ds, --addon-name=hello-template, "--hub-kubeconfig={{HUB_KUBECONFIG}}"]
              env: [{name: LOG_LEVEL, value: "{{LOG_LEVEL}}"}]
    - kind: ServiceAccount
      apiVersion: v1
      metadata:
        name: hello-template-agent-sa
        namespace: open-cluster-management-agent-addon-ds
        annotations: {addon.open-cluster-management.io/deletion-orphan: ""}
    - kind: ClusterRoleBinding
      apiVersion: rbac.authorization.k8s.io/v1
      metadata: {name: hello-template-agent}
      roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
      subjects: [{kind: ServiceAccount, name: hello-template-agent-sa, namespace: open-cluster-management-agent-addon-ds}]
registration:
- {type: KubeClient}
- {type: CustomSigner, customSigner: {signerName: example.com/signer-name, signingCA: {name: ca}}}
`

func TestManifestRows(t *testing.T) {
	type row struct {
		AddonDeploymentConfig struct{ Spec ocm.AddOnDeploymentConfigSpec }
		AddonTemplatePath     string
		ManagedCluster        struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
		}
	}
	for _, r := range cases.Rows[row](t, "fleet/ocm/ocm_addon_templateagent__template_agent__TestAddonTemplateAgentManifests.json") {
		if r.Case.AddonTemplatePath != "./testmanifests/addontemplate_daemonset.yaml" {
			continue
		}
		in := template.Input{AddOn: "hello-template", Cluster: r.Case.ManagedCluster.Metadata.Name, ClusterAnnotations: r.Case.ManagedCluster.Metadata.Annotations, Config: r.Case.AddonDeploymentConfig.Spec}
		if err := yaml.UnmarshalStrict([]byte(daemonSet), &in.Template); err != nil {
			t.Fatal(err)
		}
		got, err := template.Render(in)
		if err != nil {
			t.Fatal(r.Name, err)
		}
		var want []map[string]any
		if err := json.Unmarshal(r.Observed[0].Value, &want); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d manifests, want %d", r.Name, len(got), len(want))
		}
		for i := range want {
			delete(want[i], "status") // upstream's types have empty fields, which plain JSON has not
			same(t, r.Name, got[i], full(want[i]))
		}
	}
}

// full leaves empty objects out.
func full(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if m, is := item.(map[string]any); is && len(m) == 0 {
				delete(v, key)
				continue
			}
			v[key] = full(item)
		}
	case []any:
		for i := range v {
			v[i] = full(v[i])
		}
		return slices.Clip(v)
	}
	return v
}
