package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/schema"
)

// load writes files and reads them as schemas.
func load(t testing.TB, files map[string]string) (*schema.Set, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return schema.Load(dir)
}

// offending are the values that an error of upstream names.
var offending = regexp.MustCompile(`\* (\S+) in body`)

var place = regexp.MustCompile(`\[\d+\]`)

func TestSamplesOfOpenAPI(t *testing.T) {
	var file struct{ Cases []map[string]any }
	data, err := os.ReadFile(upstreamcases.Path(t, "operator/addon-operator/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range file.Cases {
		if expected, ok := c["seedExpect"].(map[string]any); ok {
			maps.Copy(c, expected)
		}
		text := func(key string) string { s, _ := c[key].(string); return s }
		set, err := load(t, map[string]string{"config-values.yaml": text("openapi/config-values.yaml"), "values.yaml": text("openapi/values.yaml")})
		if err != nil {
			t.Fatal(c["name"], err)
		}
		for _, stage := range []struct {
			stage                         schema.Stage
			values, valid, errors, filled string
		}{
			{schema.ConfigValues, "configValues", "configValid", "configError", "configValuesWithDefaults"},
			{schema.Values, "moduleValues", "valuesValid", "valuesError", "moduleValuesWithDefaults"},
			{schema.HelmValues, "moduleValues", "helmValid", "helmError", ""},
		} {
			values, ok := c[stage.values].(map[string]any)
			valid, said := c[stage.valid].(bool)
			if !ok || !said {
				continue
			}
			checked++
			values = set.Default(stage.stage, values)
			if want, ok := c[stage.filled]; ok {
				if diff := cmp.Diff(want, any(values)); diff != "" {
					t.Errorf("%s: %s", c["name"], diff)
				}
			}
			err := set.Check(stage.stage, "moduleName", values, nil)
			if (err == nil) != valid {
				t.Errorf("%s: %s is to be %v: %v", c["name"], stage.valid, valid, err)
			}
			for _, m := range offending.FindAllStringSubmatch(text(stage.errors), -1) {
				// Upstream omits the index in a list.
				if got := place.ReplaceAllString(fmt.Sprint(err), ""); !valid && !strings.Contains(got, m[1]) {
					t.Errorf("%s: %v does not name %s", c["name"], err, m[1])
				}
			}
		}
	}
	if checked < len(file.Cases) {
		t.Errorf("%d checks for %d rows", checked, len(file.Cases))
	}
	t.Logf("%d rows of openapi.json, %d checks", len(file.Cases), checked)
}

// TestSeedExamplesAreAccepted: the schemas and statements of addon-operator's documentation.
func TestSeedExamplesAreAccepted(t *testing.T) {
	const config = "type: object\nadditionalProperties: false\nrequired: [project, clusterName]\nminProperties: 2\nproperties:\n  project: {type: string}\n  clusterName: {type: string}\n  clusterHostname: {type: string}\n  discovery: {type: object}\n"
	set, err := load(t, map[string]string{"config-values.yaml": config, "values.yaml": `
x-extend: {schema: config-values.yaml}
type: object
x-required-for-helm: [param1, param2]
properties:
  param1: {type: string}
  param2: {type: string}
  found: {type: object, default: {}}
`})
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]any{"project": "p", "clusterName": "c", "discovery": map[string]any{"any": 1}}
	with := func(key string, value any) map[string]any {
		out := map[string]any{key: value}
		for k, v := range whole {
			if k != key {
				out[k] = v
			}
		}
		return out
	}
	for _, c := range []struct {
		name   string
		stage  schema.Stage
		values map[string]any
		want   string // of the error; "" is valid
	}{
		{"all that is required", schema.ConfigValues, whole, ""},
		{"a required key is missing", schema.ConfigValues, map[string]any{"project": "p"}, "global.clusterName in body is required"},
		{"an object where a string is asked for", schema.ConfigValues, with("clusterHostname", map[string]any{}), "global.clusterHostname in body must be of type string"},
		{"an unknown key", schema.ConfigValues, with("clustername", "c"), "global.clustername in body is a forbidden property"},
		{"values have what config values have", schema.Values, with("param1", "x"), ""},
		{"one of two that Helm needs", schema.HelmValues, with("param1", "x"), "global.param2 in body is required"},
	} {
		err := set.Check(c.stage, "global", c.values, nil)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if got := set.Default(schema.Values, whole); got["found"] == nil || whole["found"] != nil {
		t.Errorf("with defaults %v, and before %v", got, whole)
	}
}

// TestUnknownKeysAreFoundAcrossAllOf: a branch of oneOf or anyOf names only its special part, and the parts of allOf are one
// object.
func TestUnknownKeysAreFoundAcrossAllOf(t *testing.T) {
	set, err := load(t, map[string]string{"values.yaml": `
type: object
definitions: {named: {type: object, properties: {name: {type: string, default: n}}, patternProperties: {^x-: {type: object, properties: {a: {type: string}}}}}}
properties:
  tls:
    type: object
    properties: {mode: {type: string}, host: {type: string}, cert: {type: string}}
    oneOf: [{properties: {mode: {enum: [A]}}}, {properties: {mode: {enum: [B]}}, required: [cert]}]
    anyOf: [{properties: {mode: {type: string}}}]
  free: {oneOf: [{properties: {mode: {enum: [A]}}}, {properties: {mode: {enum: [B]}}, required: [cert]}]}
  both: {type: object, allOf: [{$ref: '#/definitions/named'}], properties: {size: {type: integer}}}
  open: {allOf: [{$ref: '#/definitions/named'}, {additionalProperties: true}]}
  map: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}
  list: {type: array, items: {type: object, properties: {a: {type: string}}}}
`})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ values, want string }{ // want is part of the error; "" is valid
		{`{"tls": {"mode": "A", "host": "x"}}`, ""},
		{`{"tls": {"mode": "B", "host": "x", "cert": "c"}}`, ""},
		{`{"tls": {"mode": "B", "host": "x"}}`, "v.tls"},
		{`{"tls": {"mode": "A", "post": "x"}}`, "v.tls.post in body is a forbidden property"},
		{`{"free": {"mode": "A", "host": "x"}}`, ""},
		{`{"free": {"mode": "B"}}`, "v.free"},
		{`{"both": {"name": "n", "size": 1, "x-a": {"a": "z"}}}`, ""},
		{`{"both": {"names": "n"}}`, "v.both.names in body is a forbidden property"},
		{`{"both": {"name": 1}}`, "v.both.name in body must be of type string"},
		{`{"both": {"x-a": {"b": "z"}}}`, "v.both.x-a.b in body is a forbidden property"},
		{`{"open": {"name": "n", "more": 1}}`, ""},
		{`{"map": {"k": {"b": "any"}}}`, ""},
		{`{"list": [{"b": "any"}]}`, "b in body is a forbidden property"},
		{`{"more": 1}`, "v.more in body is a forbidden property"},
	} {
		var values map[string]any
		if err := json.Unmarshal([]byte(c.values), &values); err != nil {
			t.Fatal(err)
		}
		err := set.Check(schema.Values, "v", set.Default(schema.Values, values), nil)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.values, err)
		}
	}
}

func TestSchemaReferencesAreResolved(t *testing.T) {
	set, err := load(t, map[string]string{
		"config-values.yaml": "type: object\ndefinitions: {size: {type: integer, default: 3}}\nproperties: {a: {$ref: '#/definitions/size'}, definitions: {type: string}}\n",
		"values.yaml":        "x-extend: {schema: config-values.yaml}\ntype: object\nproperties: {b: {$ref: '#/definitions/size'}, c: {$ref: 'parts.yaml#/definitions/part'}}\n",
		"parts.yaml":         "definitions: {part: {type: object, x-required-for-helm: x, properties: {x: {$ref: '#/definitions/text'}, list: {type: array, items: {type: object, properties: {why: {type: string, default: d}}}}}}, text: {type: string}}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	values := set.Default(schema.Values, map[string]any{"definitions": "x", "c": map[string]any{"list": []any{map[string]any{}, map[string]any{"why": nil}}}})
	if text := fmt.Sprint(values); text != "map[a:3 b:3 c:map[list:[map[why:d] map[why:<nil>]]] definitions:x]" {
		t.Errorf("with defaults %s", text)
	}
	err = set.Check(schema.HelmValues, "m", map[string]any{"b": "no", "c": map[string]any{"list": []any{map[string]any{"z": 1}}}}, nil)
	for _, want := range []string{"m.b in body must be of type integer", "m.c.x in body is required", "z in body is a forbidden property"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestMistakesQuoteNoValue(t *testing.T) {
	set, err := load(t, map[string]string{"config-values.yaml": "type: object\nproperties: {a: {type: string, format: ipv4}, b: {type: string, enum: [x]}, c: {type: string, pattern: x}, d: {type: integer}, e: {type: string, maxLength: 1}}\n"})
	if err != nil {
		t.Fatal(err)
	}
	err = set.Check(schema.ConfigValues, "m", map[string]any{"a": "hunter2", "b": "hunter2", "c": "hunter2", "d": "hunter2", "e": "hunter2"}, nil)
	for _, want := range []string{"m.a in body must be of type ipv4", "m.b", "m.c", `m.d in body must be of type integer: "string"`, "m.e"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestCELRulesAreEvaluated checks rules in CEL at every depth, and rules about changes.
func TestCELRulesAreEvaluated(t *testing.T) {
	set, err := load(t, map[string]string{"config-values.yaml": `
type: object
properties:
  replicas: {type: integer}
  most: {type: integer}
  registry:
    type: object
    properties: {mode: {type: string}}
    x-deckhouse-validations: [{expression: self.mode == oldSelf.mode, message: the mode stays}]
  ports:
    type: array
    items: {type: integer, x-deckhouse-validations: [{expression: self > 1023.0, message: ports of root are taken}]}
    x-deckhouse-validations: [{expression: "self.all(x, x in oldSelf)", message: ports are only taken away}]
  limits: {type: object, additionalProperties: {type: string, x-deckhouse-validations: [{expression: "self.matches('^[0-9]+$')", message: a limit is a number}]}}
x-deckhouse-validations:
- {expression: self.replicas <= self.most, message: too many replicas}
- {expression: "!has(oldSelf.most) || self.most >= oldSelf.most", message: most does not shrink}
`, "values.yaml": "x-extend: {schema: config-values.yaml}\ntype: object\n"})
	if err != nil {
		t.Fatal(err)
	}
	type m = map[string]any
	for _, c := range []struct {
		name           string
		values, before any
		want           string // of the error; "" is valid
	}{
		{"all hold", m{"replicas": 1, "most": 2, "ports": []any{8080}, "limits": m{"cpu": "1"}}, nil, ""},
		{"the root", m{"replicas": 3, "most": 2}, nil, "k: too many replicas"},
		{"a key is absent", m{"replicas": 3}, nil, ""},
		{"an item", m{"ports": []any{8080, 80}}, nil, "k.ports[1]: ports of root are taken"},
		{"a key without a name of its own", m{"limits": m{"cpu": "much"}}, nil, "k.limits.cpu: a limit is a number"},
		{"two at once", m{"replicas": 3, "most": 2, "limits": m{"cpu": "much"}}, nil, "k.limits.cpu: a limit is a number\nk: too many replicas"},
		{"a change", m{"registry": m{"mode": "b"}, "most": 1}, m{"registry": m{"mode": "a"}, "most": 2}, "k.registry: the mode stays\nk: most does not shrink"},
		{"no change", m{"registry": m{"mode": "a"}}, m{"registry": m{"mode": "a"}}, ""},
		{"new below what was there", m{"registry": m{"mode": "a"}, "ports": []any{8080}}, m{}, ""},
		{"a rule about a change, in a macro", m{"ports": []any{8080, 9090}}, m{"ports": []any{8080}}, "k.ports: ports are only taken away"},
		{"a wrong type is told alone", m{"replicas": "many", "most": 2}, nil, "k.replicas in body must be of type integer: \"string\""},
	} {
		for _, stage := range []schema.Stage{schema.ConfigValues, schema.Values, schema.HelmValues} {
			err := set.Check(stage, "k", c.values, c.before)
			if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	for text, want := range map[string]string{
		"{properties: {a: {x-deckhouse-validations: 1}}}":                                           "config-values.yaml: a.x-deckhouse-validations: must be a list",
		"{x-deckhouse-validations: [{message: no expression}]}":                                     "x-deckhouse-validations[0]: needs an expression and a message",
		"{x-deckhouse-validations: [{expression: 'self.a >', message: m}]}":                         "x-deckhouse-validations[0].expression: ERROR",
		"{x-deckhouse-validations: [{expression: '1 + 1', message: m}]}":                            "gives a int, not true or false",
		"{patternProperties: {'(': {x-deckhouse-validations: [{expression: 'true', message: m}]}}}": "patternProperties",
	} {
		if _, err := load(t, map[string]string{"config-values.yaml": text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if set, err = load(t, map[string]string{"values.yaml": "x-deckhouse-validations: [{expression: 'self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0.0)))', message: m}]\n"}); err != nil {
		t.Fatal(err)
	}
	if err := set.Check(schema.Values, "k", m{"l": make([]float64, 1000)}, nil); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("a rule that takes for ever: %v", err)
	}
	if err := set.Check(schema.Values, "k", m{"l": "text"}, nil); err == nil || !strings.Contains(err.Error(), `rule "self.l.all(`) {
		t.Errorf("a rule that cannot be evaluated: %v", err)
	}
}

func TestSchemaMistakesAreReported(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":                {"a: [", "config-values.yaml: not YAML"},
		"a list":                 {"[]", "is not a mapping"},
		"no schema":              {"type: object\nproperties: 3\n", "is not a schema"},
		"circular":               {"definitions: {a: {type: object, properties: {b: {$ref: '#/definitions/a'}}}}\nproperties: {a: {$ref: '#/definitions/a'}}\n", "circular"},
		"a reference to nothing": {"properties: {a: {$ref: '#/definitions/a'}}\n", `"#/definitions/a" does not exist`},
		"a reference out":        {"properties: {a: {$ref: '../../etc/passwd'}}\n", "../../etc/passwd"},
		"a reference to the web": {"properties: {a: {$ref: 'https://example.org/a.yaml'}}\n", "from their folder only"},
		"a missing base":         {"x-extend: {schema: nothing.yaml}\n", `x-extend.schema "nothing.yaml"`},
		"a circle of bases":      {"x-extend: {schema: config-values.yaml}\ntype: object\nproperties: {a: {$ref: 'config-values.yaml'}}\n", "circular"},
		"a mistyped type":        {"type: object\nproperties: {a: {type: strng}}\n", `config-values.yaml: a.type: strng is not a type; did you mean "string"?`},
		"a type in a list":       {"properties: {a: {type: [strin, 'null']}}\n", "a.type: strin is not a type"},
		"a type in items":        {"properties: {a: {type: array, items: {type: strng}}}\n", "a.items.type: strng is not a type"},
		"a type in anyOf":        {"properties: {a: {anyOf: [{type: int}, {type: string}]}}\n", "a.anyOf[0].type: int is not a type"},
		"a type of a definition": {"definitions: {d: {type: bool}}\nproperties: {a: {$ref: '#/definitions/d'}}\n", "a.type: bool is not a type"},
		"a type of the root":     {"type: map\n", "config-values.yaml: type: map is not a type"},
		"a type in not":          {"properties: {a: {not: {type: strng}}}\n", "a.not.type: strng is not a type"},
		"a type that is a map":   {"properties: {a: {type: {a: b}}}\n", "a.type: must be the name of a type, or a list of them"},
		"a pattern that is none": {"properties: {a: {type: string, pattern: '['}}\n", "a.pattern: error parsing regexp"},
		"a pattern of keys":      {"properties: {a: {patternProperties: {'(': {type: string}}}}\n", "a.patternProperties: error parsing regexp"},
	} {
		if _, err := load(t, map[string]string{"config-values.yaml": c.text}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := load(t, map[string]string{"values.yaml": "type: object\nx-required-for-helm: {a: b}\n"}); err == nil || !strings.Contains(err.Error(), "x-required-for-helm") {
		t.Errorf("%v", err)
	}
	bomb := "definitions:\n  a0: {type: string}\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("  a%d: {properties: {x: {$ref: '#/definitions/a%d'}, y: {$ref: '#/definitions/a%d'}}}\n", i, i-1, i-1)
	}
	if _, err := load(t, map[string]string{"values.yaml": bomb + "properties: {a: {$ref: '#/definitions/a29'}}\n"}); err == nil || !strings.Contains(err.Error(), "grows to more than") {
		t.Errorf("a schema that doubles 29 times: %v", err)
	}
	set, err := schema.Load("/nowhere")
	if err != nil || set.Check(schema.HelmValues, "m", map[string]any{"any": 1}, nil) != nil {
		t.Errorf("without schemas: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("type: object\nproperties: {a: {type: string, default: x}, l: {type: array, items: {type: object, properties: {b: {type: integer}}}}}\n"), []byte(`{"a":1,"l":[{"b":2}]}`))
	f.Add([]byte("x-extend: {schema: values.yaml}\nallOf: [{$ref: '#/properties/a'}]\nproperties: {a: {pattern: '(', type: string}}\n"), []byte(`{"a":"x"}`))
	f.Add([]byte("x-deckhouse-validations: [{expression: 'self.a == oldSelf.a && self.l.all(x, x > 1)', message: m}]\npatternProperties: {a: {x-deckhouse-validations: [{expression: self, message: m}]}}\n"), []byte(`{"a":true,"l":[2]}`))
	dir := f.TempDir() // one for all, because making folders takes longer than reading schemas
	f.Fuzz(func(t *testing.T, text, values []byte) {
		if err := os.WriteFile(filepath.Join(dir, "values.yaml"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := schema.Load(dir)
		var plain map[string]any
		if err != nil || json.Unmarshal(values, &plain) != nil {
			return
		}
		_ = set.Check(schema.HelmValues, "m", set.Default(schema.Values, plain), plain)
	})
}
