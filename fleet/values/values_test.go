package values_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/testgrid/cases"
)

func TestGeneratedRows(t *testing.T) {
	var file struct {
		ChartName string
		Cluster   map[string]any
		Cases     []struct{ Name, Values, ValuesTemplate, UpstreamError string }
	}
	cases.JSON(t, "fleet/caaph/values_template_generated.json", &file)
	for _, r := range file.Cases {
		t.Run(r.Name, func(t *testing.T) {
			got, err := values.Render(values.Input{Name: file.ChartName, Template: r.ValuesTemplate, Cluster: file.Cluster})
			if (err != nil) != (r.UpstreamError != "") {
				t.Fatalf("got %v, want %s", err, r.UpstreamError)
			}
			if got != r.Values {
				t.Errorf("got  %q\nwant %q", got, r.Values)
			}
		})
	}
	t.Logf("%d rows", len(file.Cases))
}

func TestUnsafeFunctionRows(t *testing.T) {
	for _, r := range cases.Rows[struct{ ValuesTemplate string }](t, "fleet/caaph/internal__value_substitutions__TestParseValuesRejectsUnsafeTemplateFunctions.json") {
		if got, err := values.Render(values.Input{Template: r.Case.ValuesTemplate}); err == nil {
			t.Errorf("%s renders %q", r.Name, got)
		}
	}
}

const cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: rome
  labels: {Name: a label, tier: gold}
spec:
  clusterNetwork:
    apiServerPort: 6443
    pods: {cidrBlocks: [10.0.0.0/16, fd00::/48]}
  topology:
    workers: {machineDeployments: [{name: md-0, replicas: 3}]}
`

const controlPlane = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: rome-cp}
spec: {replicas: 3, kubeadmConfigSpec: {clusterConfiguration: {apiServer: {certSANs: [a.b]}}}}
`

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestRender(t *testing.T) {
	for text, want := range map[string]string{
		// both spellings, also through variables, with and range
		`{{ .Cluster.spec.clusterNetwork.apiServerPort }} {{ .Cluster.Spec.ClusterNetwork.APIServerPort }}`: "6443 6443",
		`{{ with .Cluster.Spec }}{{ .ClusterNetwork.Pods.CIDRBlocks | join "," }}{{ end }}`:                 "10.0.0.0/16,fd00::/48",
		`{{ $c := .Cluster }}{{ $c.Name }} {{ $.Cluster.ObjectMeta.Name }} {{ $c.metadata.name }}`:          "rome rome rome",
		`{{ range .Cluster.Spec.Topology.Workers.MachineDeployments }}{{ .Name }}={{ .Replicas }}{{ end }}`: "md-0=3",
		`{{ (index .Cluster.Spec.Topology.Workers.MachineDeployments 0).Name }}`:                            "md-0",
		`{{ .ControlPlane.Spec.Replicas }} {{ .ControlPlane.metadata.name }}`:                               "3 rome-cp",
		`{{ .InfraCluster.Name }} {{ .InfraCluster.Spec.region }}`:                                          "rome-infra eu",
		`{{ define "a" }}{{ .Spec.ClusterNetwork.APIServerPort }}{{ end }}{{ template "a" .Cluster }}`:      "6443",
		`{{ if .Cluster.Spec.Paused }}yes{{ else }}no{{ end }}`:                                             "no",
		// Go names are only looked up
		`{{ .Cluster.Labels.Name }} {{ .Cluster.metadata.labels.Tier }}`:               "a label <no value>",
		`{{ keys .Cluster.spec.clusterNetwork | sortAlpha }}`:                          "[apiServerPort pods]",
		`{{ .Cluster.spec.clusterNetwork.pods | toJson }}`:                             `{"cidrBlocks":["10.0.0.0/16","fd00::/48"]}`,
		`{{ range $k, $v := .Cluster.metadata.labels }}{{ $k }}={{ $v }};{{ end }}`:    "Name=a label;tier=gold;",
		`{{ .Cluster.Nope.deeper }}{{ .Nope }}{{ .Cluster.spec.nope | default 7 }}`:    "<no value><no value>7",
		`{{ (semver "1.36.3").Minor }} {{ $v := semver "2.0.0" }}{{ $v.Major }}`:       "36 2",
		`{{ $t := toDate "2006-01-02" "2026-01-01" }}{{ $t.Format "Jan 2006" }}`:       "Jan 2026",
		`{{ "Jan" | (toDate "2006-01-02" "2026-01-01").Format }} {{ $.Cluster.kind }}`: "Jan Cluster",
		`{{ .Cluster.spec.clusterNetwork.pods | toYaml | nindent 2 }}`:                 "\n  cidrBlocks:\n  - 10.0.0.0/16\n  - fd00::/48\n  ",
	} {
		got, err := values.Render(values.Input{
			Name: "calico-rome", Template: text, Cluster: parse(t, cluster), ControlPlane: parse(t, controlPlane),
			InfraCluster: map[string]any{"kind": "ShipCluster", "metadata": map[string]any{"name": "rome-infra"}, "spec": map[string]any{"region": "eu"}},
		})
		if err != nil || got != want {
			t.Errorf("%s\ngot  %q %v\nwant %q", text, got, err, want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{{`:                               "failed to parse the values template: template: calico-rome:1: ",
		`{{ expandenv "$HOME" }}`:          `function "expandenv" not defined`,
		`{{ getHostByName "a" }}`:          `function "getHostByName" not defined`,
		`{{ .Cluster.kind.nope }}`:         "can't evaluate field nope in type string",
		`{{ fail "no version" }}`:          "no version",
		`{{ sealift.tick }}`:               "failed to parse the values template",
		`{{ template "missing" . }}`:       `template "missing" not defined`,
		`{{ index .Cluster.spec.list 3 }}`: "failed to render the values template",
	} {
		_, err := values.Render(values.Input{Name: "calico-rome", Template: text, Cluster: parse(t, cluster)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestRenderIsBounded has templates without end. Each fails soon, and without much memory.
func TestRenderIsBounded(t *testing.T) {
	for _, text := range []string{
		`{{ until 100000000 }}`,
		`{{ range $i := until 10000 }}{{ range $j := until 10000 }}{{ end }}{{ end }}`,
		`{{ range 100000000 }}{{ end }}`,
		`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
		`{{ repeat 100000000 "x" }}`,
		`{{ $s := "x" }}{{ range until 100 }}{{ $s = printf "%s%s" $s $s }}{{ end }}`,
		`{{ $s := "x" }}{{ range until 100 }}{{ $s = cat $s $s }}{{ end }}`,
		`{{ $l := list 1 }}{{ range until 100 }}{{ $l = concat $l $l }}{{ end }}`,
		`{{ printf "%100000000d" 1 }}`,
		`{{ printf "%*d" 100000000 1 }}`,
		`{{ range until 1000 }}{{ genPrivateKey "rsa" }}{{ end }}`,
		`{{ randAlphaNum 100000000 }}`,
		`{{ range until 100000 }}0123456789012345{{ end }}`,
	} {
		began := time.Now()
		got, err := values.Render(values.Input{Template: text})
		if err == nil || time.Since(began) > 20*time.Second {
			t.Errorf("%s renders %d bytes in %v: %v", text, len(got), time.Since(began), err)
		}
		if !errors.Is(err, values.ErrLimit) && !strings.Contains(err.Error(), "exceeded maximum template depth") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add(`{{ range $i, $cidr := .Cluster.Spec.ClusterNetwork.Pods.CIDRBlocks }}{{ $cidr }}{{ end }}`)
	f.Add(`{{ with $x := .Cluster }}{{ ($x.Spec).Topology.A.b | printf "%v" }}{{ else with .B }}{{ break }}{{ end }}`)
	object := parse(f, cluster)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := values.Render(values.Input{Template: text, Cluster: object})
		if err == nil && len(got) > 1<<20 {
			t.Fatalf("%d bytes", len(got))
		}
	})
}
