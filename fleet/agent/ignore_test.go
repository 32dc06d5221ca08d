package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/fleet/ocm"
)

const ignoring = `{spec: {replicas: 3, containers: [{name: web, image: web:2, args: [-a, -b]}, {name: log, image: log:2}], "a.b/c": one}}`

func TestIgnoredFieldsKeepTheirValues(t *testing.T) {
	// there is another container first, as a webhook adds it
	const there = `{spec: {replicas: 5, containers: [{name: mesh, image: mesh:1}, {name: web, image: web:1, args: [-c]}], "a.b/c": two}}`
	const web, log = `{"args":["-a","-b"],"image":"web:2","name":"web"}`, `{"image":"log:2","name":"log"}`
	for name, tt := range map[string]struct{ rule, want string }{
		"a field":                           {`{jsonPaths: [.spec.replicas]}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":5}`},
		"a field without the first dot":     {`{jsonPaths: [spec.replicas]}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":5}`},
		"a field from the root":             {`{jsonPaths: [$.spec.replicas]}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":5}`},
		"a quoted name":                     {`{jsonPaths: [".spec['a.b/c']"]}`, `{"a.b/c":"two","containers":[` + web + `,` + log + `],"replicas":3}`},
		"a name with escapes":               {`{jsonPaths: ['.spec.a\.b/c']}`, `{"a.b/c":"two","containers":[` + web + `,` + log + `],"replicas":3}`},
		"a field of an element by a filter": {`{jsonPaths: ['.spec.containers[?(@.name=="web")].image']}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"image":"web:1","name":"web"},` + log + `],"replicas":3}`},
		"an element by a filter":            {`{jsonPaths: ['.spec.containers[?(@.name=="web")]']}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":3}`},
		"a field of all elements":           {`{jsonPaths: ['.spec.containers[*].image']}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"image":"web:1","name":"web"},{"name":"log"}],"replicas":3}`},
		"a field that is nowhere":           {`{jsonPaths: [.spec.paused.x]}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":3}`},
		"a pointer":                         {`{jsonPointers: [/spec/replicas]}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":5}`},
		"a pointer with escapes":            {`{jsonPointers: [/spec/a.b~1c]}`, `{"a.b/c":"two","containers":[` + web + `,` + log + `],"replicas":3}`},
		"a pointer into a list":             {`{jsonPointers: [/spec/containers/0/args/0]}`, `{"a.b/c":"one","containers":[{"args":["-c","-b"],"image":"web:2","name":"web"},` + log + `],"replicas":3}`},
		"a pointer to an element":           {`{jsonPointers: [/spec/containers/1]}`, `{"a.b/c":"one","containers":[` + web + `],"replicas":3}`},
		"a pointer behind a list":           {`{jsonPointers: [/spec/containers/7/image]}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":3}`},
		"jq":                                {`{jqPathExpressions: [.spec.replicas]}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":5}`},
		"jq with a selection":               {`{jqPathExpressions: ['.spec.containers[] | select(.name == "web") | .image']}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"image":"web:1","name":"web"},` + log + `],"replicas":3}`},
		"jq from the end":                   {`{jqPathExpressions: ['.spec.containers[-1]']}`, `{"a.b/c":"one","containers":[` + web + `],"replicas":3}`},
		"jq that removes several":           {`{jqPathExpressions: ['.spec.containers[0].args[]']}`, `{"a.b/c":"one","containers":[{"args":["-c"],"image":"web:2","name":"web"},` + log + `],"replicas":3}`},
		"jq of what is missing":             {`{jqPathExpressions: ['.spec.volumes[]?.name']}`, `{"a.b/c":"one","containers":[` + web + `,` + log + `],"replicas":3}`},
		"jq of a number":                    {`{jqPathExpressions: ['.spec.replicas[]']}`, `error: jq expression ".spec.replicas[]": cannot iterate over: number (3)`},
		"jq without an end":                 {`{jqPathExpressions: ['def f: f; f']}`, `error: jq expression "def f: f; f": context deadline exceeded`},
		"jq of everything":                  {`{jqPathExpressions: [.]}`, `error: jq expression ".": it selects the whole object`},
		"jq that is none":                   {`{jqPathExpressions: ['.spec[']}`, `error: jq expression ".spec[": unexpected token`},
		"a slice":                           {`{jqPathExpressions: ['.spec.containers[0:1]']}`, `error: jq expression ".spec.containers[0:1]": it selects `},
		"a pointer without a slash":         {`{jsonPointers: [spec]}`, `error: JSON pointer "spec" does not begin with a slash`},
		"a path that is none":               {`{jsonPaths: ['.spec[']}`, `error: JSON path ".spec[": unterminated array`},
	} {
		wanted, live, field := &unstructured.Unstructured{}, &unstructured.Unstructured{}, ocm.IgnoreField{}
		readYAML(t, ignoring, &wanted.Object)
		readYAML(t, there, &live.Object)
		readYAML(t, tt.rule, &field)
		paths, err := finders(field)[0](t.Context(), wanted)
		for _, path := range slices.Backward(paths) {
			keepPresent(wanted, live, path)
		}
		text, _ := json.Marshal(wanted.Object["spec"])
		if err != nil {
			text = []byte("error: " + err.Error())
		}
		if got := string(text); got != tt.want && (err == nil || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

func TestFieldsChangedOnClusterAreLeftOut(t *testing.T) {
	const ours = `{"f:spec":{"f:containers":{"k:{\"name\":\"log\"}":{".":{},"f:image":{},"f:name":{}},"k:{\"name\":\"web\"}":{".":{},"f:args":{},"f:name":{}}},"f:a.b/c":{}}}`
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "work-agent", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(ours),
	}})
	const log = `{"image":"log:2","name":"log"}`
	for name, tt := range map[string]struct{ rule, want string }{
		"a field of others":       {`{jsonPaths: [.spec.replicas]}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"image":"web:2","name":"web"},` + log + `]}`},
		"a field of ours":         {`{jsonPaths: [".spec['a.b/c']"]}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"image":"web:2","name":"web"},` + log + `],"replicas":3}`},
		"fields of elements":      {`{jsonPaths: [".spec.containers[*].image"]}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"name":"web"},` + log + `],"replicas":3}`},
		"a map with both in it":   {`{jsonPaths: [.spec]}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"image":"web:2","name":"web"},` + log + `]}`},
		"a list with one of ours": {`{jsonPointers: [/spec/containers]}`, `{"a.b/c":"one","containers":[{"args":["-a","-b"],"image":"web:2","name":"web"},` + log + `],"replicas":3}`},
	} {
		wanted, field := &unstructured.Unstructured{}, ocm.IgnoreField{}
		readYAML(t, ignoring, &wanted.Object)
		readYAML(t, tt.rule, &field)
		paths, err := finders(field)[0](t.Context(), wanted)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			keepChanged(wanted, live, "work-agent", path)
		}
		if got, _ := json.Marshal(wanted.Object["spec"]); string(got) != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

func TestFieldsThatAreManagedAsAWhole(t *testing.T) {
	const ours = `{"f:spec":{"f:nodeSelector":{},"f:template":{".":{},"f:a":{}}}}`
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "work-agent", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(ours),
	}})
	wanted := &unstructured.Unstructured{}
	readYAML(t, "{spec: {nodeSelector: {zone: a}, template: {a: 1, b: 2}}}", &wanted.Object)
	for _, path := range []fieldPath{{"spec", "nodeSelector"}, {"spec", "template"}} {
		keepChanged(wanted, live, "work-agent", path)
	}
	if got, _ := json.Marshal(wanted.Object["spec"]); string(got) != `{"nodeSelector":{"zone":"a"},"template":{"a":1}}` {
		t.Errorf("got %s", got)
	}
}

func TestElementsWithOddNames(t *testing.T) {
	wanted, live := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	readYAML(t, "{list: [{name: {a: b}, size: 1}]}", &wanted.Object)
	readYAML(t, "{list: [{name: {a: b}, size: 2}]}", &live.Object)
	keepPresent(wanted, live, fieldPath{"list", 0, "size"})
	if got, _ := json.Marshal(wanted.Object); string(got) != `{"list":[{"name":{"a":"b"},"size":2}]}` {
		t.Errorf("got %s", got)
	}
}
