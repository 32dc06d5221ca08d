package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealift/sealift/operator/schema"
)

// TestExtendWithoutItsFileIsAccepted: a module without values for administrators has no config-values.yaml, or one with nothing but
// comments. Upstream uses the schema in its state at that time.
func TestExtendWithoutItsFileIsAccepted(t *testing.T) {
	const values = "x-extend: {schema: config-values.yaml}\ntype: object\nproperties: {b: {type: integer}}\n"
	for name, files := range map[string]map[string]string{
		"no file": {"values.yaml": values}, "an empty file": {"values.yaml": values, "config-values.yaml": ""}, "comments": {"values.yaml": values, "config-values.yaml": "# none\n---\n"},
		"no name": {"values.yaml": strings.Replace(values, "{schema: config-values.yaml}", "{}", 1)}, "null": {"values.yaml": strings.Replace(values, "config-values.yaml", "null", 1)},
	} {
		set, err := load(t, files)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := errors.Join(set.Check(schema.ConfigValues, "k", map[string]any{"any": 1}, nil), set.Check(schema.HelmValues, "k", map[string]any{"b": 1}, nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if set.Check(schema.Values, "k", map[string]any{"b": "x"}, nil) == nil || set.Check(schema.Values, "k", map[string]any{"c": 1}, nil) == nil {
			t.Errorf("%s: the schema has no effect", name)
		}
	}
}

// TestSchemaWordsAreText: on and off are words of an enum and names of properties, as upstream's YAML has them, and not true and false.
func TestSchemaWordsAreText(t *testing.T) {
	set, err := load(t, map[string]string{"config-values.yaml": `
type: object
properties:
  mode: &word {type: string, enum: [on, off, y], default: off}
  since: {type: string, default: 2020-01-02}
  on: {type: boolean, default: true}
  404: {type: integer, default: 010}
  other: *word
  more: {<<: *word, default: y}
`})
	if err != nil {
		t.Fatal(err)
	}
	got := set.Default(schema.ConfigValues, map[string]any{})
	if err := set.Check(schema.ConfigValues, "k", got, nil); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprint(got); text != "map[404:8 mode:off more:y on:true other:off since:2020-01-02]" {
		t.Error(text)
	}
	if err := set.Check(schema.ConfigValues, "k", map[string]any{"mode": "true"}, nil); err == nil {
		t.Error("the enum has no effect")
	}
	bomb := "a0: &a0 [x]\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	if _, err := load(t, map[string]string{"values.yaml": bomb}); err == nil {
		t.Error("aliases that double are filled in")
	}
}

// TestDefaultsCountAsPresent: a null default is none, and a required key with a default is not missing where defaults are not filled in.
func TestDefaultsCountAsPresent(t *testing.T) {
	set, err := load(t, map[string]string{"values.yaml": `
type: object
default: {}
required: [mode]
x-required-for-helm: [mode, name]
properties:
  storageClass: {type: string, default: null}
  mode: {type: string, default: CertManager}
  name: {type: string}
  pools:
    type: object
    additionalProperties:
      type: object
      required: [size, zone]
      properties: {size: {type: integer, default: 3}, zone: {type: string}}
`})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Default(schema.Values, map[string]any{}); fmt.Sprint(got) != "map[mode:CertManager]" {
		t.Errorf("with defaults %v", got)
	}
	for values, want := range map[string]string{
		`{}`:                              "",
		`{"pools": {"a": {"zone": "x"}}}`: "",
		`{"pools": {"a": {}}}`:            "v.pools.a.zone in body is required",
		`{"storageClass": null}`:          "v.storageClass in body must be of type string",
	} {
		var plain map[string]any
		if err := json.Unmarshal([]byte(values), &plain); err != nil {
			t.Fatal(err)
		}
		if err := set.Check(schema.Values, "v", plain, nil); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
	if err := set.Check(schema.HelmValues, "v", map[string]any{}, nil); err == nil || err.Error() != "v.name in body is required" {
		t.Errorf("before Helm: %v", err)
	}
}
