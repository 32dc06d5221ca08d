package values_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

func TestMain(m *testing.M) {
	sandbox.Main(values.Tasks()...)
	os.Exit(m.Run())
}

func TestGeneratedRows(t *testing.T) {
	var file struct {
		ChartName string
		Cluster   map[string]any
		Cases     []struct{ Name, Values, ValuesTemplate, UpstreamError string }
	}
	upstreamcases.JSON(t, "fleet/caaph/values_template_generated.json", &file)
	for _, r := range file.Cases {
		t.Run(r.Name, func(t *testing.T) {
			got, err := values.Render(t.Context(), values.Input{Name: file.ChartName, Template: r.ValuesTemplate, Cluster: file.Cluster})
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
	for _, r := range upstreamcases.Rows[struct{ ValuesTemplate string }](t, "fleet/caaph/internal__value_substitutions__TestParseValuesRejectsUnsafeTemplateFunctions.json") {
		if got, err := values.Render(t.Context(), values.Input{Template: r.Case.ValuesTemplate}); err == nil {
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
		// both spellings, including through variables, with and range
		`{{ .Cluster.spec.clusterNetwork.apiServerPort }} {{ .Cluster.Spec.ClusterNetwork.APIServerPort }}`:      "6443 6443",
		`{{ with .Cluster.Spec }}{{ .ClusterNetwork.Pods.CIDRBlocks | join "," }}{{ end }}`:                      "10.0.0.0/16,fd00::/48",
		`{{ $c := .Cluster }}{{ $c.Name }} {{ $.Cluster.ObjectMeta.Name }} {{ $c.metadata.name }}`:               "rome rome rome",
		`{{ .Cluster.TypeMeta.Kind }} {{ .ControlPlane.TypeMeta.APIVersion }} {{ .InfraCluster.TypeMeta.Kind }}`: "Cluster controlplane.cluster.x-k8s.io/v1beta2 ShipCluster",
		`{{ range .Cluster.Spec.Topology.Workers.MachineDeployments }}{{ .Name }}={{ .Replicas }}{{ end }}`:      "md-0=3",
		`{{ (index .Cluster.Spec.Topology.Workers.MachineDeployments 0).Name }}`:                                 "md-0",
		`{{ .ControlPlane.Spec.Replicas }} {{ .ControlPlane.metadata.name }}`:                                    "3 rome-cp",
		`{{ .InfraCluster.Name }} {{ .InfraCluster.Spec.region }}`:                                               "rome-infra eu",
		`{{ define "a" }}{{ .Spec.ClusterNetwork.APIServerPort }}{{ end }}{{ template "a" .Cluster }}`:           "6443",
		`{{ if .Cluster.Spec.Paused }}yes{{ else }}no{{ end }}`:                                                  "no",
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
		got, err := values.Render(t.Context(), values.Input{
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
		`{{`:                               "template: calico-rome:1: ",
		`{{ expandenv "$HOME" }}`:          `function "expandenv" not defined`,
		`{{ getHostByName "a" }}`:          `function "getHostByName" not defined`,
		`{{ .Cluster.kind.nope }}`:         "can't evaluate field nope in type string",
		`{{ fail "no version" }}`:          "no version",
		`{{ sealift.tick }}`:               `template: calico-rome:1: function "sealift" not defined`,
		`{{ template "missing" . }}`:       `template "missing" not defined`,
		`{{ index .Cluster.spec.list 3 }}`: `template: calico-rome:1:3: executing "calico-rome" at <index`,
	} {
		_, err := values.Render(t.Context(), values.Input{Name: "calico-rome", Template: text, Cluster: parse(t, cluster)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestRenderIsBounded has templates of a tenant that exceed the limits. Each fails soon and without much memory, while another tenant
// continues.
func TestRenderIsBounded(t *testing.T) {
	isolation.OthersGoOn(t, func(ctx context.Context) error {
		_, err := values.Render(ctx, values.Input{Name: "calico-oslo", Tenant: "alice", Template: `{{ .Cluster.kind }}`, Cluster: map[string]any{"kind": "Cluster"}})
		return err
	})
	for _, text := range []string{
		`{{ until 100000000 }}`,
		`{{ range $i := until 100000 }}{{ range $j := until 100000 }}{{ end }}{{ end }}`,
		`{{ range 10000000000 }}{{ end }}`,
		`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
		`{{ repeat 100000000 "x" }}`,
		`{{ $s := "x" }}{{ range until 100 }}{{ $s = printf "%s%s" $s $s }}{{ end }}`,
		`{{ $s := "x" }}{{ range until 100 }}{{ $s = cat $s $s }}{{ end }}`,
		`{{ $l := list 1 }}{{ range until 100 }}{{ $l = concat $l $l }}{{ end }}`,
		`{{ range until 1000 }}{{ genPrivateKey "rsa" }}{{ end }}`,
		`{{ randAlphaNum 100000000 }}`,
		`{{ range until 100000 }}0123456789012345{{ end }}`,
		`{{ $s := repeat 100000 "aaaaaaaaaa" }}{{ replace "a" $s $s }}`,
		`{{ repeat 100000 (repeat 10000 "x") }}`,
		`{{ $x := "a" }}{{ range until 40 }}{{ $x = list $x $x }}{{ end }}{{ $x | toJson }}`,
		`{{ $x := "a" }}{{ range until 40 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ $x }}`,
		`{{ $d := dict }}{{ $_ := set $d "a" $d }}{{ $d | toYaml }}`,
		`{{ $d := dict }}{{ $l := list }}{{ range until 10000 }}{{ $l = append $l $d }}{{ end }}{{ $_ := set $d "a" (repeat 100000 "aaaaaaaaaa") }}{{ $l }}`,
		`{{ $d := dict }}{{ $l := list }}{{ range until 10000 }}{{ $l = append $l $d }}{{ end }}{{ $_ := set $d "a" (repeat 100000 "aaaaaaaaaa") }}{{ $l | html }}`,
		`{{ $x := "a" }}{{ range until 40000 }}{{ $x = list $x }}{{ end }}{{ $x | toPrettyJson }}`,
		`{{ indent 100000 (repeat 1000000 "\n") }}`,
		`{{ nindent 100000 (repeat 100000 "\n") }}`,
		`{{ join (repeat 100000 "aaaaaaaaaa") (until 100000) }}`,
		`{{ wrapWith 1 (repeat 100000 "aaaaaaaaaa") (repeat 100000 "b ") }}`,
		`{{ regexReplaceAll "a" (repeat 100000 "a") (repeat 100000 "b") }}`,
		`{{ regexReplaceAll "a+" (repeat 100000 "a") (repeat 100000 "$0") }}`,
		`{{ printf (repeat 100000 "%[1]s") (repeat 100000 "a") }}`,
		`{{ printf (repeat 100000 "%9999d") 1 }}`,
		`{{ split "" (repeat 100000 "aaaaaaaaaa") }}`,
		`{{ $l := list }}{{ range until 100000 }}{{ $l = append $l (list (repeat 100000 "aaaaaaaaaa")) }}{{ end }}`,
		`{{ uniq (until 20000) }}`,
		`{{ without (until 30000) 1 2 3 4 | uniq }}`,
		`{{ range until 1000 }}{{ regexMatch "(a?){900}a{900}$" (repeat 100000 "a") }}{{ end }}`,
		`{{ regexFindAll "(x+x+)+y" (repeat 1000000 "x") -1 }}{{ range until 1000 }}{{ regexMatch "(x+x+)+y" (repeat 1000000 "x") }}{{ end }}`,
		`{{ range until 3000 }}{{ bcrypt "a" }}{{ end }}`,
		`{{ derivePassword 1 "long" "a" "b" "c" }}{{ range until 100000 }}{{ derivePassword 1 "long" "a" "b" "c" }}{{ end }}`,
		`{{ $s := repeat 1000 "a" }}{{ range until 100000 }}{{ $s = sha256sum (repeat 1000 $s) }}{{ end }}`,
		`{{ seq 1 1 300000000 }}`,
		`{{ repeat 300000000 "x" | len }}`,
	} {
		began := time.Now()
		got, err := values.Render(t.Context(), values.Input{Name: "calico-rome", Tenant: "mallory", Template: text})
		took := time.Since(began).Round(time.Millisecond)
		t.Logf("%v: %.80s: %v", took, text, err)
		if err == nil || took > time.Minute {
			t.Errorf("%s renders %d bytes in %v: %v", text, len(got), took, err)
			continue
		}
		if !errors.Is(err, sandbox.ErrLimit) && !strings.Contains(err.Error(), "exceeded maximum template depth") && !strings.Contains(err.Error(), "encountered a cycle") {
			t.Errorf("%s: %v", text, err)
		}
		if !strings.Contains(err.Error(), "calico-rome") {
			t.Errorf("%s: the error does not name the template: %v", text, err)
		}
	}
	isolation.CheckMemory(t, 352<<20)
}

// TestRenderOfManyValues has more than any chart needs.
func TestRenderOfManyValues(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat(`{{ $x := repeat 100000 "aaaaaaaaaa" }}`, 100): "",
		`{{ $d := dict }}{{ range $i := until 1000 }}{{ $_ := set $d (printf "node-%d" $i) (dict "cpu" 4 "zones" (list "a" "b")) }}{{ end }}{{ $d | toYaml | len }}`: "39890",
		`{{ range until 1000 }}{{ $.Cluster | toYaml | nindent 8 | len | toString | trunc 0 }}{{ end }}ok`:                                                           "ok",
		`{{ join "," (until 10000) | len }} {{ replace "a" "bbb" (repeat 1000 "a") | len }} {{ wrap 10 (repeat 10 "word ") | len }}`:                                 "48889 3000 50",
		`{{ regexReplaceAll "a(.)" "axay" "${1}-" }} {{ printf "%[2]s-%05[1]d" 7 "a" }} {{ html "<" }}`:                                                              "x-y- a-00007 &lt;",
	} {
		got, err := values.Render(t.Context(), values.Input{Template: text, Cluster: parse(t, cluster)})
		if err != nil || got != want {
			t.Errorf("%s\ngot  %.200q %v\nwant %q", text, got, err, want)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add(`{{ range $i, $cidr := .Cluster.Spec.ClusterNetwork.Pods.CIDRBlocks }}{{ $cidr }}{{ end }}`)
	f.Add(`{{ with $x := .Cluster }}{{ ($x.Spec).Topology.A.b | printf "%v" }}{{ else with .B }}{{ break }}{{ end }}`)
	object := parse(f, cluster)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := values.Render(t.Context(), values.Input{Template: text, Cluster: object})
		if err == nil && len(got) > 1<<20 {
			t.Fatalf("%d bytes", len(got))
		}
	})
}
