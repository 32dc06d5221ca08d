package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
)

func TestFeedbackOfAnObject(t *testing.T) {
	const deployment = `{apiVersion: apps/v1, kind: Deployment, status: {readyReplicas: 1, ready: true, load: 0.5, none: null,
	  conditions: [{type: A, status: "true"}, {type: B, status: "false"}, {type: C, status: "true"}]}}`
	for name, tt := range map[string]struct{ path, want string }{
		"a number":                   {"{name: v, path: .status.readyReplicas}", `[{"name":"v","fieldValue":{"type":"Integer","integer":1}}]`},
		"a text, and a blank":        {`{name: v, path: '.status.conditions[?(@.type=="A")].status '}`, `[{"name":"v","fieldValue":{"type":"String","string":"true"}}]`},
		"a boolean":                  {"{name: v, path: .status.ready}", `[{"name":"v","fieldValue":{"type":"Boolean","boolean":true}}]`},
		"a fraction":                 {"{name: v, path: .status.load}", `[{"name":"v","fieldValue":{"type":"JsonRaw","jsonRaw":"0.5"}}]`},
		"a list":                     {"{name: v, path: '.status.conditions[0:1]'}", `[{"name":"v","fieldValue":{"type":"JsonRaw","jsonRaw":"{\"status\":\"true\",\"type\":\"A\"}"}}]`},
		"several values are a list":  {`{name: v, path: '.status.conditions[?(@.status=="true")].type'}`, `[{"name":"v","fieldValue":{"type":"JsonRaw","jsonRaw":"[\"A\",\"C\"]"}}]`},
		"null":                       {"{name: v, path: .status.none}", `null`},
		"nothing":                    {"{name: v, path: .status.missing.deep}", `null`},
		"another version":            {"{name: v, path: .status.ready, version: v1beta1}", `v: version v1beta1 of Deployment is not the applied one`},
		"a path that cannot be read": {"{name: v, path: '.status['}", `v: unterminated array`},
	} {
		live, path := &unstructured.Unstructured{}, ocm.JSONPath{}
		content, err := yaml.YAMLToJSON([]byte(deployment))
		if err == nil {
			err = live.UnmarshalJSON(content) // as from an API server, with whole numbers
		}
		if err != nil {
			t.Fatal(err)
		}
		readYAML(t, tt.path, &path)
		values, problems := feedback(live, []ocm.FeedbackRule{{Type: ocm.JSONPaths, JSONPaths: []ocm.JSONPath{path}}})
		got, _ := json.Marshal(values)
		if text := strings.Join(problems, "; "); text != "" {
			got = []byte(text)
		}
		if string(got) != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
