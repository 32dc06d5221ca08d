package values_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/values"
)

// configured is the expectation of a row for a ConfigMap that was read. Error is set if it cannot be.
type configured struct {
	Modules any
	Global  json.RawMessage
	Error   any
}

// eventRow is a ConfigMap that is edited: by operations that each have a map of keys, or to other data.
type eventRow struct {
	Before map[string]string
	Patch  edits
	After  map[string]string
	Expect struct {
		configured
		Event string
	}
}

func TestSamplesOfConfigMaps(t *testing.T) {
	data, err := os.ReadFile(upstreamcases.Path(t, "operator/addon-operator/kube_config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Parse []struct {
			Data map[string]string
			configured
		}
		Events []eventRow
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for i, c := range file.Parse {
		config, err := values.ReadConfig(c.Data)
		if wrong := c.Error != nil && c.Error != false; (err != nil) != wrong {
			t.Errorf("row %d: %v, and the sample %v", i, err, c.Error)
		} else if err == nil {
			c.check(t, fmt.Sprint("row ", i), config)
		}
	}
	for i := range file.Events {
		file.Events[i].check(t)
	}
	t.Logf("%d rows of parse and %d of events of kube_config.yaml checked; saving and what events start need the operator", len(file.Parse), len(file.Events))
}

// check compares flags and values of modules, and the global section: null is none, true is any.
func (c *configured) check(t *testing.T, row string, config values.Config) {
	t.Helper()
	named := map[string]any{}
	switch modules := c.Modules.(type) {
	case map[string]any:
		named = modules
	case []any:
		for _, name := range modules {
			named[fmt.Sprint(name)] = nil
		}
	}
	if c.Modules != nil && len(named) != len(config.Modules) {
		t.Errorf("%s: the modules are %v, not %v", row, config.Modules, c.Modules)
	}
	for name, want := range named {
		m, ok := config.Modules[values.Key(name)]
		if !ok {
			t.Errorf("%s: there is no module %s", row, name)
		}
		flag := "n/d"
		if m.Enabled != nil {
			flag = strconv.FormatBool(*m.Enabled)
		}
		fields, _ := want.(map[string]any)
		for _, key := range []string{"values", "config"} {
			if section, ok := fields[key]; ok {
				same(t, row+", module "+name, m.Values, section)
			}
		}
		switch enabled, ok := fields["enabled"]; {
		case fields != nil && !ok, fields == nil && want == nil:
			continue
		case fields != nil:
			want = enabled
		}
		if want == nil {
			want = "n/d"
		}
		if flag != fmt.Sprint(want) {
			t.Errorf("%s: module %s is %s, not %v", row, name, flag, want)
		}
	}
	c.checkGlobal(t, row, config.Global)
}

func (c *configured) checkGlobal(t *testing.T, row string, got map[string]any) {
	t.Helper()
	if c.Global == nil {
		return
	}
	var want any
	if err := json.Unmarshal(c.Global, &want); err != nil {
		t.Fatal(err)
	}
	switch section := want.(type) {
	case nil, bool:
		if (got != nil) != (section == true) {
			t.Errorf("%s: the global section is %v, not %v", row, got, want)
		}
	case string:
		if err := yaml.Unmarshal([]byte(section), &want); err != nil {
			t.Fatal(err)
		}
		same(t, row, got, want)
	default:
		same(t, row, got, want)
	}
}

func (c *eventRow) check(t *testing.T) {
	t.Helper()
	after := c.After
	if after == nil {
		after = c.Patch.apply(c.Before)
	}
	row := fmt.Sprintf("%v, then %v", c.Before, after)
	was, wrong := values.ReadConfig(c.Before)
	config, err := values.ReadConfig(after)
	switch {
	case c.Expect.Event == "":
		t.Errorf("%s: the sample has no event", row)
	case strings.EqualFold(c.Expect.Event, "invalid"):
		if err == nil {
			t.Errorf("%s: it is valid", row)
		}
		return
	case err != nil:
		t.Errorf("%s: %v", row, err)
		return
	case wrong == nil:
		if changed := !reflect.DeepEqual(was, config); changed == strings.EqualFold(c.Expect.Event, "none") {
			t.Errorf("%s: it has changed: %v", row, changed)
		}
	}
	c.Expect.configured.check(t, row, config)
}

// edits are the keys that a patch sets, and null for those that it removes. Whole is set if the patch is all of the data.
type edits struct {
	keys  map[string]*string
	whole bool
}

// UnmarshalJSON reads operations with maps or lists of keys, or a JSON patch of the object.
func (e *edits) UnmarshalJSON(text []byte) error {
	e.keys = map[string]*string{}
	var steps []struct {
		Op, Path string
		Value    *string
	}
	if json.Unmarshal(text, &steps) == nil {
		for _, s := range steps {
			if s.Op == "remove" {
				s.Value = nil
			}
			e.keys[strings.TrimPrefix(s.Path, "/data/")] = s.Value
		}
		return nil
	}
	var operations map[string]json.RawMessage
	if err := json.Unmarshal(text, &operations); err != nil {
		return err
	}
	for op, entries := range operations {
		var set map[string]*string
		var names []string
		var name string
		switch {
		case json.Unmarshal(entries, &set) == nil:
		case json.Unmarshal(entries, &names) == nil:
		case json.Unmarshal(entries, &name) == nil:
			names = []string{name}
		default:
			return fmt.Errorf("%s: %s", op, entries)
		}
		for key := range set {
			if op == "remove" {
				set[key] = nil
			}
		}
		maps.Copy(e.keys, set)
		for _, name := range names {
			e.keys[name] = nil
		}
		e.whole = e.whole || op == "data"
	}
	return nil
}

func (e *edits) apply(data map[string]string) map[string]string {
	after := map[string]string{}
	if !e.whole {
		maps.Copy(after, data)
	}
	for key, text := range e.keys {
		if delete(after, key); text != nil {
			after[key] = *text
		}
	}
	return after
}

// TestFormsOfSamplesOfConfigMaps uses an edit in each form, from and to valid and invalid ones.
func TestFormsOfSamplesOfConfigMaps(t *testing.T) {
	for _, text := range []string{
		"{before: {global: 'a: 1'}, patch: {add: {module2: 'p: 1'}}, expect: {event: changed, modules: [module-2], global: {a: 1}}}",
		"{before: {global: 'a: 1'}, patch: {replace: {global: 'b: 1'}}, expect: {event: changed, modules: [], global: 'b: 1'}}",
		"{before: {Bad-one: 'a: 1', goodEnabled: 'true'}, patch: {add: {good: '{p: 1}'}, remove: [Bad-one]}, expect: {event: changed, modules: {good: {enabled: true, values: {p: 1}}}, global: null}}",
		"{before: {one: 'a: 1'}, patch: {data: {Two: 'a: 1'}}, expect: {event: invalid}}",
		"{before: {one: 'a: 1'}, after: {one: '{a: 1}'}, expect: {event: none, modules: {one: n/d}}}",
		"{before: {one: 'a: 1'}, patch: [{op: add, path: /data/oneEnabled, value: 'false'}, {op: remove, path: /data/one}], expect: {event: changed, modules: {one: 'false'}}}",
	} {
		var c eventRow
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		c.check(t)
	}
}
