package ocm_test

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
)

func TestConfigOfAnObject(t *testing.T) {
	const node = "- {resourceIdentifier: {resource: nodes, name: node1}, feedbackRules: [{type: WellKnownStatus}]}\n"
	for name, tt := range map[string]struct{ configs, want string }{
		"none":             {"[]", ``},
		"of other objects": {node + "- {resourceIdentifier: {resource: configmaps, name: test1, namespace: testns}, feedbackRules: [{type: WellKnownStatus}]}", ``},
		"of another group": {"- {resourceIdentifier: {group: apps, resource: configmaps, name: '*', namespace: '*'}, updateStrategy: {type: ReadOnly}}", ``},
		"its own":          {node + "- {resourceIdentifier: {resource: configmaps, name: test, namespace: testns}, feedbackRules: [{type: WellKnownStatus}]}", `,"feedbackRules":[{"type":"WellKnownStatus"}]`},
		"with stars":       {node + "- {resourceIdentifier: {resource: configmaps, name: '*', namespace: 'test*'}, updateStrategy: {type: Update}}", `,"updateStrategy":{"type":"Update"}`},
		"a star within":    {"- {resourceIdentifier: {resource: configmaps, name: 't*e*t', namespace: '*ns'}, updateStrategy: {type: Update}}", `,"updateStrategy":{"type":"Update"}`},
		"stars too many":   {"- {resourceIdentifier: {resource: configmaps, name: 'test*t', namespace: '*'}, updateStrategy: {type: Update}}", ``},
		"a star elsewhere": {"- {resourceIdentifier: {resource: configmaps, name: '*my', namespace: '*'}, updateStrategy: {type: Update}}", ``},
		"a dot is a dot":   {"- {resourceIdentifier: {resource: configmaps, name: 'te.t*', namespace: '*'}, updateStrategy: {type: Update}}", ``},
		"the first of each": {`
- {resourceIdentifier: {resource: configmaps, name: test, namespace: 'test*'}, feedbackRules: [{type: WellKnownStatus}]}
- {resourceIdentifier: {resource: configmaps, name: test, namespace: testns}, feedbackRules: [{type: JSONPaths}], conditionRules: []}
- {resourceIdentifier: {resource: configmaps, name: '*', namespace: testns}, updateStrategy: {type: Update}, conditionRules: [{type: CEL}]}
- {resourceIdentifier: {resource: configmaps, name: '*', namespace: testns}, updateStrategy: {type: CreateOnly}, conditionRules: [{type: X}]}`,
			`,"feedbackRules":[{"type":"WellKnownStatus"}],"updateStrategy":{"type":"Update"},"conditionRules":[{"type":"CEL"}]`},
	} {
		var spec ocm.AgentSpec
		if err := yaml.Unmarshal([]byte(tt.configs), &spec.ManifestConfigs); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(spec.ConfigOf(ocm.ResourceIdentifier{Resource: "configmaps", Name: "test", Namespace: "testns"}))
		want := `{"resourceIdentifier":{"resource":"configmaps","name":"test","namespace":"testns"}` + tt.want + `}`
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
	}
}
