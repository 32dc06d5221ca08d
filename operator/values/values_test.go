package values_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/values"
)

// sample reads the cases of a file of samples.
func sample[Case any](t *testing.T, name string) []Case {
	t.Helper()
	data, err := os.ReadFile(upstreamcases.Path(t, "operator/addon-operator/"+name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []Case }
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d rows of %s checked", len(file.Cases), len(file.Cases), name)
	return file.Cases
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	var plain any
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plain); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func TestMergedValuesMatchSamples(t *testing.T) {
	for i, c := range sample[struct {
		Layers []map[string]any
		Result any
	}](t, "merge_values.json") {
		before := fmt.Sprint(c.Layers)
		same(t, strconv.Itoa(i), values.Merge(c.Layers...), c.Result)
		if fmt.Sprint(c.Layers) != before {
			t.Errorf("case %d: a layer was changed", i)
		}
	}
}

func TestSamplesOfNames(t *testing.T) {
	for _, c := range sample[struct {
		ModuleName, ValuesKey, Back string
		Accepted                    bool
	}](t, "module_names.json") {
		if got := values.Key(c.ModuleName); got != c.ValuesKey {
			t.Errorf("the key of %s is %s, not %s", c.ModuleName, got, c.ValuesKey)
		}
	}
}

func TestSamplesOfPatchStreams(t *testing.T) {
	for _, c := range sample[struct {
		Stream     string
		Operations any
		Error      bool
	}](t, "values_patch_parse.json") {
		got, err := values.ParsePatch([]byte(c.Stream))
		if (err != nil) != c.Error {
			t.Errorf("%s: %v", c.Stream, err)
		}
		if err == nil {
			same(t, c.Stream, got, c.Operations)
		}
	}
}

// TestNullPatchChangesNothing: jq writes that, and addon-operator accepts it.
func TestNullPatchChangesNothing(t *testing.T) {
	got, err := values.ParsePatch([]byte(`null {"op":"remove","path":"/m/a"} null`))
	if err != nil || len(got) != 1 || got[0].Path != "/m/a" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := values.ParsePatch([]byte(`[null]`)); err == nil {
		t.Error("an operation that is null")
	}
}

var quoted = regexp.MustCompile(`path '([^']*)'`)

func TestForbiddenPatchesMatchSamples(t *testing.T) {
	for _, c := range sample[struct {
		Patch, PermittedRoot string
		Error                *string
	}](t, "values_patch_validate.json") {
		operations, err := values.ParsePatch([]byte(c.Patch))
		if err != nil {
			t.Fatal(err)
		}
		err = values.CheckPatch(operations, c.PermittedRoot)
		if (err != nil) != (c.Error != nil) {
			t.Errorf("%s: %v", c.Patch, err)
			continue
		}
		if c.Error != nil {
			if path := quoted.FindStringSubmatch(*c.Error); path != nil && !strings.Contains(err.Error(), path[0]) {
				t.Errorf("%s: %v does not name %s", c.Patch, err, path[0])
			}
		}
	}
}

type applied struct {
	Error, Changed bool
	Result         any
}

func TestAppliedPatchesMatchSamples(t *testing.T) {
	for _, c := range sample[struct {
		Name, Patch string
		Values      map[string]any
		Strict      applied
		Kept        applied `json:"ignore-non-existent-paths"`
	}](t, "values_patch_apply.json") {
		operations, wrong := values.ParsePatch([]byte(c.Patch))
		for strict, want := range map[bool]applied{true: c.Strict, false: c.Kept} {
			result, changed, err := values.Apply(c.Values, operations, strict)
			if err = errors.Join(wrong, err); (err != nil) != want.Error || changed != want.Changed {
				t.Errorf("%s, strict %v: changed %v, %v", c.Name, strict, changed, err)
			}
			if !want.Error {
				same(t, c.Name, result, want.Result)
			}
		}
	}
}

func TestCompactionMatchesSamples(t *testing.T) {
	for _, c := range sample[struct {
		Existing, New string
		Stored        any
	}](t, "values_patch_compact.json") {
		existing, err := values.ParsePatch([]byte(c.Existing))
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := values.ParsePatch([]byte(c.New))
		if err != nil {
			t.Fatal(err)
		}
		same(t, c.Existing+" and "+c.New, values.Compact(values.Compact(nil, existing), fresh), c.Stored)
	}
	appends, err := values.ParsePatch([]byte(`{"op":"add","path":"/m/list/-","value":1} {"op":"add","path":"/m/list/-","value":2} {"op":"add","path":"/m/listed","value":3}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := values.Compact(nil, appends); len(got) != 3 {
		t.Errorf("of two appends and another path %d operations are left", len(got))
	}
	removal := []values.Operation{{Op: "remove", Path: "/m/list"}}
	if got := values.Compact(appends, removal); len(got) != 2 || got[0].Op != "remove" {
		t.Errorf("after the list was removed: %v", got)
	}
}

func TestModuleConfigsMatchSamples(t *testing.T) {
	for _, c := range sample[struct {
		Module, Error, Maintenance string
		Values                     map[string]any
		Enabled                    *bool
		Config                     any // a map or a list
	}](t, "module_config.json") {
		data := map[string]string{}
		for key, value := range c.Values {
			text, err := yaml.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if data[key] = string(text); strings.HasSuffix(key, values.EnabledSuffix) {
				data[key] = fmt.Sprint(value) // a flag is text in the ConfigMap, even if a row has a boolean
			}
		}
		config, err := values.ReadConfig(data)
		// Upstream refuses a bare boolean as a section; its documentation describes it as the flag, which counts.
		if section, ok := c.Values[values.Key(c.Module)]; ok && (section == "false" || section == "true" || section == true || section == false) {
			flag := fmt.Sprint(section) == "true"
			c.Error, c.Enabled = "", &flag
		}
		if (err != nil) != (c.Error != "") {
			t.Errorf("%v: %v", c.Values, err)
			continue
		}
		m := config.Modules[values.Key(c.Module)]
		if diff := cmp.Diff(c.Enabled, m.Enabled); diff != "" {
			t.Errorf("%v: %s", c.Values, diff)
		}
		if c.Maintenance != "" && m.Unmanaged != strings.EqualFold(c.Maintenance, "NoResourceReconciliation") {
			t.Errorf("%v: maintenance is to be %s", c.Values, c.Maintenance)
		}
		switch empty := fmt.Sprint(c.Config) == "map[]" || fmt.Sprint(c.Config) == "[]"; {
		case empty && m.Values == nil:
		case c.Config != nil:
			same(t, c.Module, m.Values, c.Config)
		}
	}
}

func TestMistakesInConfigMapNameKey(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string]string
		want string
	}{
		"kebab case":              {map[string]string{"my-module": "a: 1"}, "ConfigMap key my-module: bad module name 'my-module': should be camelCased"},
		"a flag that is a word":   {map[string]string{"oneEnabled": "yes"}, `ConfigMap key oneEnabled: "yes" is neither "true" nor "false"`},
		"a section that is text":  {map[string]string{"one": "text"}, "ConfigMap key one: must be a map or a list"},
		"a section that is wrong": {map[string]string{"one": "a: ["}, "ConfigMap key one: not YAML"},
		"a section that explodes": {map[string]string{"one": "a: &x " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*x, ", 5) + "]"}, "ConfigMap key one: not YAML: line 2: the aliases"},
		"a list of globals":       {map[string]string{"global": "[1]"}, "ConfigMap key global: must be a map"},
		"a maintenance":           {map[string]string{"oneMaintenance": "soon"}, `ConfigMap key oneMaintenance: "soon"`},
		"two that disagree":       {map[string]string{"one": "false", "oneEnabled": "true"}, "disagree"},
	} {
		if _, err := values.ReadConfig(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	config, err := values.ReadConfig(map[string]string{"oneMaintenance": "noresourcereconciliation", "global": "", "two": "[1]", "three": "false", "2fa": "a: 1"})
	if err != nil || !config.Modules["one"].Unmanaged || config.Global != nil || config.Modules["2fa"].Values == nil || *config.Modules["three"].Enabled {
		t.Errorf("%+v, %v", config, err)
	}
}

// TestSectionsOfModulesAreYAML12: no is a country, except in global values, as in addon-operator.
func TestSectionsOfModulesAreYAML12(t *testing.T) {
	const text = "country: no\nmode: on\nsize: 3\n"
	config, err := values.ReadConfig(map[string]string{"global": text, "one": text + "day: 2020-01-02\n"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"country": "no", "mode": "on", "size": 3.0, "day": "2020-01-02"}
	if diff := cmp.Diff(any(want), config.Modules["one"].Values); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"country": false, "mode": true, "size": 3.0}, config.Global); diff != "" {
		t.Error(diff)
	}
}

func TestModuleSeesOnlyItsSections(t *testing.T) {
	all := map[string]any{"global": 1, "one": 2, "two": 3}
	same(t, "one", values.Sections(all, values.GlobalKey, "one"), any(map[string]any{"global": 1.0, "one": 2.0}))
	if len(all) != 3 {
		t.Error("the values were changed")
	}
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"op":"add","path":"/m/a","value":1} [{"op":"remove","path":"/m/b"},{"op":"add","path":"/m/l/-","value":[]}]`))
	f.Add([]byte(`{"op":"test","path":"/m","value":{}}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		operations, err := values.ParsePatch(stream)
		if err != nil || values.CheckPatch(operations, "m") != nil {
			return
		}
		start := map[string]any{"m": map[string]any{"l": []any{1.0}}}
		if result, _, err := values.Apply(start, operations, false); err == nil && result == nil {
			t.Error("no values and no error")
		}
		values.Compact(operations, operations)
	})
}

func FuzzReadConfig(f *testing.F) {
	f.Add("global", "a: 1")
	f.Add("oneEnabled", "true")
	f.Fuzz(func(_ *testing.T, key, text string) { _, _ = values.ReadConfig(map[string]string{key: text}) })
}
