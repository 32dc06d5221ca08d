package template_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// fails compares an error with the expected text of a row. Without one there must be no error.
func fails(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got error %v, want %q", what, err, want)
	}
}

func TestImageRows(t *testing.T) {
	type one struct{ ImageName, Source, Mirror, Expected string }
	for _, r := range upstreamcases.Rows[one](t, "fleet/ocm/addon_framework_utils__image__TestImageOverride.json") {
		if got := template.Image([]ocm.ImageMirror{{Source: r.Case.Source, Mirror: r.Case.Mirror}}, r.Case.ImageName); got != r.Case.Expected {
			t.Errorf("%s: got %s, want %s", r.Name, got, r.Case.Expected)
		}
	}
	type annotated struct {
		Annotations         map[string]string
		ExpectError         bool
		ImageName, Expected string
	}
	for _, r := range upstreamcases.Rows[annotated](t, "fleet/ocm/addon_framework_utils__image__TestOverrideImageByAnnotation.json") {
		mirrors, err := template.Mirrors(r.Case.Annotations, nil)
		if got := template.Image(mirrors, r.Case.ImageName); (err != nil) != r.Case.ExpectError || got != r.Case.Expected {
			t.Errorf("%s: got %s %v, want %s", r.Name, got, err, r.Case.Expected)
		}
	}
	type values struct {
		Cluster               ocm.ManagedCluster
		AddonDeploymentConfig []deploymentConfig
		ExpectedValues        map[string]any
		ExpectedError         string
		ImageKey, ImageValue  string
	}
	for _, r := range upstreamcases.Rows[values](t, "fleet/ocm/addon_framework_addonfactory__addondeploymentconfig__TestGetAgentImageValues.json") {
		if r.Case.ImageKey == "" || r.Case.ImageValue == "" {
			continue // a program that calls upstream's function wrongly, which no template can
		}
		var config []ocm.ImageMirror
		for _, c := range r.Case.AddonDeploymentConfig {
			config = append(config, c.Spec.Registries...)
		}
		mirrors, err := template.Mirrors(r.Case.Cluster.Annotations, config)
		fails(t, r.Name, err, r.Case.ExpectedError)
		var want any = r.Case.ExpectedValues
		for key := range strings.SplitSeq(r.Case.ImageKey, ".") {
			values, _ := want.(map[string]any)
			want = values[key]
		}
		upstreamcases.Same(t, r.Name, template.Image(mirrors, r.Case.ImageValue), want)
	}
	type registries struct {
		Cluster        ocm.ManagedCluster
		ExpectedValues map[string][]ocm.ImageMirror
		ExpectedError  string
	}
	for _, r := range upstreamcases.Rows[registries](t, "fleet/ocm/ocm_addon_templateagent__values__TestGetAddOnRegistriesPrivateValuesFromClusterAnnotation.json") {
		got, err := template.Mirrors(r.Case.Cluster.Annotations, nil)
		fails(t, r.Name, err, r.Case.ExpectedError)
		upstreamcases.Same(t, r.Name, got, r.Case.ExpectedValues["__REGISTRIES"])
	}
}

func TestVariableRows(t *testing.T) {
	type row struct {
		ExpectedOverride map[string]string
		ExpectedPreset   []ocm.Variable
		TemplateSpec     ocm.AddOnTemplateSpec
		Values           map[string]string
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_addon_templateagent__values__TestGetValues.json") {
		in := template.Input{AddOn: "test", Cluster: "test-cluster", Template: r.Case.TemplateSpec}
		in.Config.AgentInstallNamespace = r.Case.Values["__INSTALL_NAMESPACE"]
		for name, value := range r.Case.Values {
			if !strings.HasPrefix(name, "__") {
				in.Config.CustomizedVariables = append(in.Config.CustomizedVariables, ocm.Variable{Name: name, Value: value})
			}
		}
		env, all := template.Variables(in)
		upstreamcases.Same(t, r.Name, env, r.Case.ExpectedPreset)
		upstreamcases.Same(t, r.Name, all, r.Case.ExpectedOverride)
	}
}

// render renders one manifest.
func render(t *testing.T, m map[string]any, config ocm.AddOnDeploymentConfigSpec) map[string]any {
	t.Helper()
	in := template.Input{AddOn: "hello", Cluster: "rome", Config: config}
	in.Template.AgentSpec.Workload.Manifests = []map[string]any{m}
	got, err := template.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func TestNamespaceRows(t *testing.T) {
	type row struct {
		Namespace string
		Object    map[string]any
	}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_addon_templateagent__decorator__TestNamespaceDecorator.json") {
		var want map[string]any
		if err := json.Unmarshal(r.Observed[0].Value, &want); err != nil {
			t.Fatal(err)
		}
		upstreamcases.Same(t, r.Name, render(t, r.Case.Object, ocm.AddOnDeploymentConfigSpec{AgentInstallNamespace: r.Case.Namespace}), want)
	}
}

func TestResourceRows(t *testing.T) {
	type row struct {
		Config          deploymentConfig
		Pod             map[string]any
		ResourceName    string
		SupportResource string
	}
	kinds := map[string]string{"deployments": "Deployment", "daemonsets": "DaemonSet"}
	for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/ocm_addon_templateagent__decorator__TestResourceRequirementsDecorator.json") {
		var want map[string]any
		if err := json.Unmarshal(r.Observed[0].Value, &want); err != nil {
			t.Fatal(err)
		}
		got := render(t, map[string]any{
			"kind": kinds[r.Case.SupportResource], "metadata": map[string]any{"name": r.Case.ResourceName},
			"spec": map[string]any{"template": r.Case.Pod},
		}, r.Case.Config.Spec)
		pod := got["spec"].(map[string]any)["template"].(map[string]any)
		for _, c := range pod["spec"].(map[string]any)["containers"].([]any) {
			delete(c.(map[string]any), "env") // which the row's decorator does not change
		}
		upstreamcases.Same(t, r.Name, pod, want)
	}
}

// sample reads the AddOnTemplate of the samples.
func sample(t *testing.T) ocm.AddOnTemplateSpec {
	t.Helper()
	text, err := os.ReadFile(upstreamcases.Path(t, "fleet/samples/ocm/helloworld-template--addon_template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Spec ocm.AddOnTemplateSpec }
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object.Spec
}

// TestHelloworldSampleIsRendered renders the sample with a configuration that uses everything.
func TestHelloworldSampleIsRendered(t *testing.T) {
	in := template.Input{AddOn: "hello-template", Cluster: "rome", Template: sample(t)}
	const config = `
customizedVariables: [{name: LOG_LEVEL, value: 'very "quiet" {{CLUSTER_NAME}}'}, {name: CLUSTER_NAME, value: not mine}]
nodePlacement: {tolerations: [{key: foo, operator: Exists}]}
registries: [{source: quay.io/open-cluster-management, mirror: registry.rome:5000/ocm}]
proxyConfig: {httpsProxy: http://proxy, caBundle: Q0E=}
agentInstallNamespace: agents
resourceRequirements: [{containerID: "*:*:*", resources: {limits: {cpu: 1}}}, {containerID: "deployments:hello-template-agent:helloworld-agent", resources: {limits: {cpu: 2}}}]
`
	if err := yaml.UnmarshalStrict([]byte(config), &in.Config); err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(in)
	got, err := template.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(in); string(before) != string(after) {
		t.Error("Render changed its input")
	}
	var d appsv1.Deployment
	text, _ := json.Marshal(got[0])
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		t.Fatal(err)
	}
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	upstreamcases.Same(t, "environment", env, map[string]string{
		"LOG_LEVEL": `very "quiet" {{CLUSTER_NAME}}`, "HUB_KUBECONFIG": "/managed/hub-kubeconfig/kubeconfig", "CLUSTER_NAME": "rome",
		"INSTALL_NAMESPACE": "agents", "HTTPS_PROXY": "http://proxy", "https_proxy": "http://proxy",
		"CA_BUNDLE_FILE_PATH": "/managed/proxy-ca/ca-bundle.crt",
	})
	upstreamcases.Same(t, "arguments", c.Args[2:], []string{"--cluster-name=rome", "--addon-namespace=open-cluster-management-agent-addon", "--addon-name=hello-template", "--hub-kubeconfig=/managed/hub-kubeconfig/kubeconfig"})
	if c.Image != "registry.rome:5000/ocm/addon-examples" || d.Namespace != "agents" || c.Resources.Limits.Cpu().String() != "2" {
		t.Errorf("image %s, namespace %s, resources %v", c.Image, d.Namespace, c.Resources)
	}
	if len(pod.Tolerations) != 1 || len(pod.Volumes) != 2 || len(c.VolumeMounts) != 2 || pod.Volumes[0].Secret.SecretName != "hello-template-hub-kubeconfig" {
		t.Errorf("pod %+v", pod)
	}
	last := got[len(got)-1]
	upstreamcases.Same(t, "CA", []any{last["kind"], last["metadata"], last["data"]}, []any{
		"ConfigMap", map[string]any{"name": "hello-template-proxy-ca", "namespace": "agents"}, map[string]any{"ca-bundle.crt": "CA"},
	})
}

// TestNoPodKeepsPublicRegistry shows that no pod keeps a public registry.
func TestNoPodKeepsPublicRegistry(t *testing.T) {
	const pod = `{spec: {initContainers: [{name: a, image: docker.io/a}], containers: [{name: b, image: docker.io/b}], volumes: [{name: c, image: {reference: docker.io/c}}, {name: d, emptyDir: {}}]}}`
	for kind, text := range map[string]string{
		"Deployment": `spec: {template: ` + pod + `}`, "DaemonSet": `spec: {template: ` + pod + `}`, "StatefulSet": `spec: {template: ` + pod + `}`,
		"ReplicaSet": `spec: {template: ` + pod + `}`, "Job": `spec: {template: ` + pod + `}`, "PodTemplate": `template: ` + pod,
		"CronJob": `spec: {jobTemplate: {spec: {template: ` + pod + `}}}`, "Pod": strings.Trim(pod, "{}") + "}",
		"List": `items: [{kind: Job, spec: {template: ` + pod + `}}]`,
	} {
		var m map[string]any
		if err := yaml.Unmarshal([]byte("kind: "+kind+"\n"+text), &m); err != nil {
			t.Fatal(kind, err)
		}
		got, _ := json.Marshal(render(t, m, ocm.AddOnDeploymentConfigSpec{Registries: []ocm.ImageMirror{{Source: "docker.io", Mirror: "mirror"}}}))
		if strings.Contains(string(got), "docker.io") || strings.Count(string(got), "mirror/") != 3 {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// TestImagesHaveDigests uses a name that already has a digest, and a mirror.
func TestImagesHaveDigests(t *testing.T) {
	var spec ocm.AddOnTemplateSpec
	if err := yaml.Unmarshal([]byte(`{agentSpec: {workload: {manifests: [{kind: Pod, spec: {
		initContainers: [{name: a, image: "busybox:{{V}}"}], containers: [{name: b, image: "x.org/b@sha256:1"}, {name: c, image: x.org/c}, {name: d, image: "y.org:5000/d:1"}]}}]}}}`), &spec); err != nil {
		t.Fatal(err)
	}
	in := template.Input{Template: spec, Config: ocm.AddOnDeploymentConfigSpec{CustomizedVariables: []ocm.Variable{{Name: "V", Value: "1"}}, Registries: []ocm.ImageMirror{{Source: "y.org:5000", Mirror: "z.org"}}}}
	names, err := template.Named(in)
	if want := []string{"busybox:1", "x.org/b@sha256:1", "x.org/c", "y.org:5000/d:1"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("it names %s, %v", names, err)
	}
	in.Digests = map[string]string{"busybox:1": "sha256:2", "x.org/b@sha256:1": "sha256:3", "x.org/c": "", "y.org:5000/d:1": "sha256:4"}
	manifests, err := template.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := template.Images(manifests[0]), []string{"busybox:1@sha256:2", "x.org/b@sha256:1", "x.org/c", "z.org/d:1@sha256:4"}; !slices.Equal(got, want) {
		t.Errorf("it has %s", got)
	}
	if again, err := template.Named(in); err != nil || !slices.Equal(again, names) {
		t.Errorf("the template was changed: %s, %v", again, err)
	}
}

// TestUnknownNamesAreEmpty shows X-27. Blanks belong to a name, and keys are texts too.
func TestUnknownNamesAreEmpty(t *testing.T) {
	got := render(t, map[string]any{"kind": "A", "{{CLUSTER_NAME}}": "{{ CLUSTER_NAME }}{{NOPE}}}}{{CLUSTER_NAME}}{{HUB_KUBECONFIG}}"}, ocm.AddOnDeploymentConfigSpec{})
	upstreamcases.Same(t, "manifest", got, map[string]any{"kind": "A", "rome": "}}rome"})
}

func TestRenderRefuses(t *testing.T) {
	deployment := map[string]any{"kind": "Deployment", "spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}
	for want, in := range map[string]template.Input{
		`AddOnTemplate of hello: manifest 0: "x{{y" has {{ without }}`: {Template: ocm.AddOnTemplateSpec{AgentSpec: ocm.AgentSpec{Workload: ocm.Workload{Manifests: []map[string]any{{"a": []any{"x{{y"}}}}}}},
		"AddOnTemplate of hello: manifest 0: a registration of type CustomSigner has no customSigner": {Template: ocm.AddOnTemplateSpec{
			AgentSpec: ocm.AgentSpec{Workload: ocm.Workload{Manifests: []map[string]any{deployment}}}, Registration: []ocm.Registration{{Type: ocm.CustomSigner}},
		}},
		"annotation open-cluster-management.io/image-registries: ": {ClusterAnnotations: map[string]string{"open-cluster-management.io/image-registries": "{"}},
	} {
		in.AddOn = "hello"
		if _, err := template.Render(in); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add(`{"kind":"Deployment","spec":{"template":{"spec":{"containers":[{"image":"a/b","name":1}]}}}}`, "{{CLUSTER_NAME}}")
	f.Add(`{"kind":"CronJob","items":[{}],"spec":{"{{A}}":"{{A}}"}}`, "{{")
	f.Fuzz(func(t *testing.T, manifest, value string) {
		var m map[string]any
		if json.Unmarshal([]byte(manifest), &m) != nil {
			return
		}
		in := template.Input{AddOn: "a", Cluster: value}
		in.Config.Registries = []ocm.ImageMirror{{Source: value, Mirror: "m"}}
		in.Template.AgentSpec.Workload.Manifests = []map[string]any{m}
		got, err := template.Render(in)
		if err == nil && !reflect.DeepEqual(got[0]["kind"], m["kind"]) && !strings.Contains(manifest, "{{") {
			t.Fatalf("the kind became %v", got[0]["kind"])
		}
	})
}

func TestReplicasMayBeAVariable(t *testing.T) {
	for name, tt := range map[string]struct {
		kind     string
		replicas any
		want     any
	}{
		"a Deployment":      {"Deployment", "{{N}}", int64(3)},
		"a StatefulSet":     {"StatefulSet", "{{N}}", int64(3)},
		"a part of a text":  {"Deployment", "1{{N}}", int64(13)},
		"a text in another": {"ConfigMap", "{{N}}", "3"},
		"a number":          {"Deployment", int64(2), int64(2)},
		"no number":         {"Deployment", "many", "many"},
		"an unknown one":    {"Deployment", "{{M}}", ""},
	} {
		in := template.Input{Config: ocm.AddOnDeploymentConfigSpec{CustomizedVariables: []ocm.Variable{{Name: "N", Value: "3"}}}}
		in.Template.AgentSpec.Workload.Manifests = []map[string]any{{"kind": tt.kind, "spec": map[string]any{"replicas": tt.replicas}}}
		manifests, err := template.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := manifests[0]["spec"].(map[string]any)["replicas"]; got != tt.want {
			t.Errorf("%s: got %v (%[2]T), want %v", name, got, tt.want)
		}
	}
}
