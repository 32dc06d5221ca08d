package conversion_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/conversion"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// typed gives an object of a row the apiVersion and kind that its $type names.
func typed(o map[string]any) map[string]any {
	if text, ok := o["$type"].(string); ok {
		version, kind, _ := strings.Cut(text, ".")
		o["apiVersion"], o["kind"] = "addon.open-cluster-management.io/"+version, kind
		delete(o, "$type")
	}
	return o
}

func check(t *testing.T, in, want map[string]any) {
	t.Helper()
	in, want = typed(in), typed(want)
	_, version, _ := strings.Cut(want["apiVersion"].(string), "/")
	got, err := conversion.Convert(in, version)
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if err != nil || string(a) != string(b) {
		t.Errorf("%v\ngot  %s\nwant %s", err, a, b)
	}
}

func TestConversionRows(t *testing.T) {
	type row struct {
		In, Want map[string]any
		WantErr  bool
	}
	for _, kind := range []string{"ClusterManagementAddOn", "ManagedClusterAddOn"} {
		for _, way := range []string{"v1alpha1_%s_To_v1beta1_%[1]s", "v1beta1_%s_To_v1alpha1_%[1]s"} {
			for _, r := range upstreamcases.Rows[row](t, "fleet/ocm/api_addon_v1beta1__conversion__TestConvert_"+fmt.Sprintf(way, kind)+".json") {
				t.Run(r.Name, func(t *testing.T) { check(t, r.Case.In, r.Case.Want) })
			}
		}
	}
	type webhook struct{ Expected, Src map[string]any }
	for _, r := range upstreamcases.Rows[webhook](t, "fleet/ocm/ocm_addon_webhook_v1beta1__managedclusteraddon_conversion__TestManagedClusterAddOnConvertTo.json") {
		t.Run(r.Name, func(t *testing.T) { check(t, r.Case.Src, r.Case.Expected) })
	}
}

// samples are v1alpha1 objects that use all that v1beta1 has otherwise, or not at all.
var samples = []string{`
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: hello, annotations: {mine: kept}}
spec:
  addOnConfiguration: {crdName: a, crName: b, lastObservedGeneration: 3}
  addOnMeta: {displayName: Hello}
  supportedConfigs:
  - {group: g, resource: r, defaultConfig: {namespace: n, name: d}}
  - {group: g, resource: s}
  newField: kept
status:
  defaultconfigReferences: [{group: g, resource: r, desiredConfig: {name: d, specHash: h}}]
`, `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: hello, namespace: rome}
spec: {installNamespace: agents, configs: [{group: g, resource: r, name: c}]}
status:
  addOnConfiguration: {crdName: a}
  kubeClientDriver: csr
  configReferences:
  - {group: g, resource: r, name: c, namespace: n, lastObservedGeneration: 2, desiredConfig: {name: c, namespace: n, specHash: h}}
  registrations:
  - {signerName: kubernetes.io/kube-apiserver-client, subject: {user: u, groups: [a], organizationUnit: [x]}}
  - {signerName: example.com/signer, subject: {user: v, organizationUnit: [y]}}
`, `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: hello, namespace: rome}
status: {kubeClientDriver: token, registrations: []}
`, `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: c, namespace: n}
spec: {customizedVariables: [{name: A, value: b}]}
`}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestBothVersionsRoundTrip uses two clients, one of each version, that write back what they read, 200 times.
func TestBothVersionsRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, sample := range samples {
		stored := parse(t, sample)
		for round := range 200 {
			read, err := conversion.Convert(stored, "v1beta1")
			if err != nil {
				t.Fatal(err)
			}
			label := fmt.Sprint("round-", round)
			client := read
			if r.IntN(2) == 0 {
				client = stored
			}
			metadata := client["metadata"].(map[string]any)
			metadata["labels"] = map[string]any{"last": label}
			back, err := conversion.Convert(client, "v1alpha1")
			if err != nil {
				t.Fatal(err)
			}
			want := parse(t, sample)
			want["metadata"].(map[string]any)["labels"] = map[string]any{"last": label}
			if !reflect.DeepEqual(back, want) {
				a, _ := json.Marshal(back)
				b, _ := json.Marshal(want)
				t.Fatalf("round %d\ngot  %s\nwant %s", round, a, b)
			}
			stored = back
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{apiVersion: v1, kind: Secret, metadata: {name: a}}`:                                                `convert Secret a from "v1" to "addon.open-cluster-management.io/v1beta1": conversion not supported`,
		`{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: AddOnHubConfig, metadata: {name: a}}`: "the kind has one version only",
		`{}`: "conversion not supported",
	} {
		if _, err := conversion.Convert(parse(t, text), "v1beta1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzConvert(f *testing.F) {
	for _, sample := range samples {
		f.Add(sample)
	}
	f.Add(`{apiVersion: addon.open-cluster-management.io/v1beta1, kind: ManagedClusterAddOn, metadata: {annotations: {fleet.sealift.dev/v1alpha1-fields: "[]"}}, status: {registrations: [{type: kubeClient, kubeClient: 1}, 2]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		var o map[string]any
		if json.Unmarshal(data, &o) != nil || o == nil {
			return
		}
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			if got, err := conversion.Convert(o, version); err == nil && !reflect.DeepEqual(got["kind"], o["kind"]) {
				t.Fatalf("the kind became %v", got["kind"])
			}
		}
	})
}
