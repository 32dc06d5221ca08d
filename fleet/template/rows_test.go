package template_test

import (
	"encoding/base64"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// deploymentConfig is an AddOnDeploymentConfig of a row.
type deploymentConfig struct{ Spec ocm.AddOnDeploymentConfigSpec }

var binary = regexp.MustCompile(`\{\s*"\$bytes"\s*:\s*("(?:[^"\\]|\\.)*")\s*\}`)

// UnmarshalJSON reads binary data as the rows write it.
func (c *deploymentConfig) UnmarshalJSON(data []byte) error {
	var object struct{ Spec ocm.AddOnDeploymentConfigSpec }
	err := json.Unmarshal(binary.ReplaceAllFunc(data, func(match []byte) []byte {
		var text string
		if json.Unmarshal(binary.FindSubmatch(match)[1], &text) != nil {
			return match
		}
		return []byte(`"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"`)
	}), &object)
	c.Spec = object.Spec
	return err
}

// TestDeploymentConfigRows has the values that upstream passes to charts of add-ons. Here they change pods.
func TestDeploymentConfigRows(t *testing.T) {
	type row struct {
		AddOnObjs      []deploymentConfig
		ExpectedValues map[string]any
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/addon_framework_addonfactory__addondeploymentconfig__TestGetAddOnDeploymentConfigValues.json") {
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
			upstreamcases.Same(t, r.Name, pod["nodeSelector"], want)
		}
		if want := r.Case.ExpectedValues["tolerations"]; want != nil {
			upstreamcases.Same(t, r.Name, pod["tolerations"], want)
		}
		_, all := template.Variables(template.Input{Config: config})
		for _, v := range config.CustomizedVariables {
			if want, found := r.Case.ExpectedValues[v.Name]; found {
				upstreamcases.Same(t, r.Name+" "+v.Name, all[v.Name], want)
			}
		}
	}
}

func TestInstallNamespaceRows(t *testing.T) {
	type row struct {
		AddonDeploymentConfig *deploymentConfig
		AddonTemplate         *struct{ Spec ocm.AddOnTemplateSpec }
		Expected, ExpectedErr string
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_addon_templateagent__template_agent__TestAgentInstallNamespace.json") {
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

// The templates that rows name have these parts. Their files are not among the samples.
const (
	workload = `
- kind: $KIND
  apiVersion: apps/v1
  metadata:
    name: $OBJECT
    namespace: $NAMESPACE
    annotations: {addon.open-cluster-management.io/deletion-orphan: ""}
    labels: {app: hello-template-agent}
  spec:
    $REPLICAS
    selector: {matchLabels: {app: hello-template-agent}}
    template:
      metadata: {labels: {app: hello-template-agent}}
      spec:
        serviceAccountName: hello-template-agent-sa
        containers:
        - name: helloworld-agent
          image: quay.io/open-cluster-management/addon-examples:v1
          imagePullPolicy: IfNotPresent
          args: [/helloworld_helm, agent, "--cluster-name={{CLUSTER_NAME}}", --addon-namespace=$NAMESPACE, --addon-name=hello-template, "--hub-kubeconfig={{HUB_KUBECONFIG}}"]
          env: [{name: LOG_LEVEL, value: "{{LOG_LEVEL}}"}]
`
	account = `
- kind: ServiceAccount
  apiVersion: v1
  metadata:
    name: hello-template-agent-sa
    namespace: $NAMESPACE
    annotations: {addon.open-cluster-management.io/deletion-orphan: ""}
- kind: ClusterRoleBinding
  apiVersion: rbac.authorization.k8s.io/v1
  metadata: {name: hello-template-agent}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
  subjects: [{kind: ServiceAccount, name: hello-template-agent-sa, namespace: $NAMESPACE}]
`
	cleanup = `
- kind: Job
  apiVersion: batch/v1
  metadata:
    name: hello-template-cleanup-configmap
    namespace: $NAMESPACE
    annotations: {addon.open-cluster-management.io/addon-pre-delete: ""}
  spec:
    manualSelector: true
    selector: {matchLabels: {job: hello-template-cleanup-configmap}}
    template:
      metadata: {labels: {job: hello-template-cleanup-configmap}}
      spec:
        serviceAccountName: hello-template-agent-sa
        restartPolicy: Never
        containers:
        - name: hello-template-agent
          image: quay.io/open-cluster-management/addon-examples
          imagePullPolicy: IfNotPresent
          args: [/helloworld_helm, cleanup, --addon-namespace=$NAMESPACE]
`
	registrations = `
- {type: KubeClient}
- {type: CustomSigner, customSigner: {signerName: example.com/signer-name, signingCA: {name: ca}}}
`
)

// named returns the template that a row names by its path.
func named(t *testing.T, file string) (spec ocm.AddOnTemplateSpec) {
	t.Helper()
	deployment := strings.NewReplacer("$KIND", "Deployment", "$OBJECT", "hello-template-agent", "$REPLICAS", "replicas: 1").Replace(workload)
	daemonSet := strings.NewReplacer("$KIND", "DaemonSet", "$OBJECT", "hello-template-agent-ds", "$REPLICAS", "").Replace(workload)
	text, namespace := "", "open-cluster-management-agent-addon"
	switch path.Base(file) {
	case "addontemplate.yaml":
		text = deployment + daemonSet + account + cleanup
	case "addontemplate_deployment.yaml":
		text = deployment + account + cleanup
	case "addontemplate_daemonset.yaml":
		text, namespace = daemonSet+account, "open-cluster-management-agent-addon-ds"
	default:
		t.Fatalf("a row of another form: it has template %s", file)
	}
	err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "$NAMESPACE", namespace)), &spec.AgentSpec.Workload.Manifests)
	if err == nil {
		err = yaml.UnmarshalStrict([]byte(registrations), &spec.Registration)
	}
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestManifestRows(t *testing.T) {
	type row struct {
		AddonDeploymentConfig          deploymentConfig
		AddonTemplatePath, ExpectedErr string
		ManagedCluster                 ocm.ManagedCluster
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_addon_templateagent__template_agent__TestAddonTemplateAgentManifests.json") {
		t.Run(r.Name, func(t *testing.T) {
			if r.Case.AddonTemplatePath == "" {
				return // without a template nothing is rendered
			}
			cluster := r.Case.ManagedCluster
			in := template.Input{
				AddOn: "hello-template", Cluster: cluster.Name, ClusterAnnotations: cluster.Annotations,
				Template: named(t, r.Case.AddonTemplatePath), Config: r.Case.AddonDeploymentConfig.Spec,
			}
			got, err := template.Render(in)
			fails(t, r.Name, err, r.Case.ExpectedErr)
			if err != nil {
				return
			}
			var want []map[string]any
			for _, o := range r.Observed {
				if o.What == "validateObjects" {
					err = json.Unmarshal(o.Value, &want)
				}
			}
			if err != nil || len(got) != len(want) {
				t.Fatalf("%d manifests, want %d: %v", len(got), len(want), err)
			}
			for i := range want {
				delete(want[i], "status") // upstream's types have empty fields, which plain JSON has not
				if want[i]["kind"] == "Job" {
					template.RewriteImages(want[i], in.Config.Registries) // which upstream does not change
				}
				upstreamcases.Same(t, "manifest", got[i], full(want[i]))
			}
		})
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
