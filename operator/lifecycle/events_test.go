package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/operator/values"
)

// edit is a change of the ConfigMap: null removes a key.
type edit map[string]any

// UnmarshalJSON reads operations with maps or lists of keys, or a JSON patch of the object. The data of "data" is all of it, which
// the key "" notes.
func (e *edit) UnmarshalJSON(text []byte) error {
	*e = edit{}
	var steps []struct {
		Op, Path string
		Value    any
	}
	if json.Unmarshal(text, &steps) == nil {
		for _, s := range steps {
			(*e)[strings.TrimPrefix(s.Path, "/data/")] = s.Value
		}
		return nil
	}
	var operations map[string]any
	if err := json.Unmarshal(text, &operations); err != nil {
		return err
	}
	for op, entries := range operations {
		switch entries := entries.(type) {
		case map[string]any:
			for key, value := range entries {
				if op == "remove" {
					value = nil
				}
				(*e)[key] = value
			}
		case []any:
			for _, key := range entries {
				(*e)[fmt.Sprint(key)] = nil
			}
		case string:
			(*e)[entries] = nil
		}
		if op == "data" {
			(*e)[""] = true
		}
	}
	return nil
}

// eventRow is a ConfigMap that is edited: by a patch or to other data.
type eventRow struct {
	Before map[string]any
	Patch  edit
	After  map[string]any
	Expect struct {
		Event string
		Tasks any
	}
}

// change is the patch from the previous state.
func (c *eventRow) change() map[string]any {
	change := maps.Clone(map[string]any(c.Patch))
	if c.After != nil {
		change = maps.Clone(c.After)
		change[""] = true
	}
	if _, whole := change[""]; whole {
		delete(change, "")
		for key := range c.Before {
			if _, stays := change[key]; !stays {
				change[key] = nil
			}
		}
	}
	return change
}

// valid are the keys of data that the operator takes, and the modules that they speak of.
func valid(data map[string]any) (keys map[string]any, modules []string) {
	keys = map[string]any{}
	for key, text := range data {
		if text == nil {
			continue
		}
		config, err := values.ReadConfig(map[string]string{key: fmt.Sprint(text)})
		if err != nil {
			continue
		}
		keys[key] = text
		for module := range config.Modules {
			modules = append(modules, module)
		}
	}
	return keys, modules
}

// testSampleEvents: an invalid edit of the ConfigMap starts nothing, and any other starts the affected modules.
func testSampleEvents(s *site) {
	var file struct{ Events []eventRow }
	s.sample("kube_config.yaml", &file)
	for i, c := range file.Events {
		s.in("event-"+string(rune('a'+i)), func(s *site) { s.event(&c) })
	}
	s.Logf("%d rows of events of kube_config.yaml checked", len(file.Events))
}

func (s *site) event(c *eventRow) {
	const refused = "the ConfigMap was changed and is wrong"
	change := c.change()
	before, modules := valid(c.Before)
	_, changed := valid(change)
	s.hook("global/g.sh", "beforeAll: 1", "")
	flags := ""
	for _, key := range slices.Compact(slices.Sorted(slices.Values(append(modules, changed...)))) {
		s.hook("modules/"+nameOf(key)+"/hooks/h.sh", "beforeHelm: 1", "")
		flags += key + "Enabled: true\n"
	}
	if flags != "" {
		s.file("modules/values.yaml", flags)
	}
	s.config(before)
	o := s.start()
	s.idle(o)
	if lines := s.lines(); len(lines) == 0 || lines[0] != "g.sh beforeAll" {
		s.Errorf("the start ran %v", lines)
	}
	refusals := 0
	if len(before) < len(c.Before) { // it was invalid before the edit
		s.config(c.Before)
		s.until("the data before is refused", func() bool { return strings.Contains(s.log.String(), refused) })
		refusals = strings.Count(s.log.String(), refused)
	}
	if err := os.Truncate(s.trace, 0); err != nil {
		s.Fatal(err)
	}
	s.config(change)
	none := c.Expect.Tasks == "none" || strings.EqualFold(c.Expect.Event, "none")
	switch {
	case strings.EqualFold(c.Expect.Event, "invalid"):
		none = true
		s.until("the edit is refused", func() bool { return strings.Count(s.log.String(), refused) > refusals })
	case !none:
		s.until("the edit starts something", func() bool { return len(s.lines()) > 0 })
	}
	s.idle(o)
	if none {
		s.traced()
		return
	}
	if refusals < strings.Count(s.log.String(), refused) {
		s.Errorf("the edit was refused: %s", s.log)
	}
	s.started(c.Expect.Tasks, change)
}

// started compares the effect of an edit: everything for the global section and for flags, and otherwise the modules with changed
// sections. A sample may speak of a reload, which is everything.
func (s *site) started(tasks any, change map[string]any) {
	everything := false
	var runs []string
	for key := range change {
		switch {
		case key == values.GlobalKey, strings.HasSuffix(key, values.EnabledSuffix):
			everything = true
		default:
			if _, modules := valid(map[string]any{key: "{}"}); len(modules) > 0 { // also if the section is removed
				runs = append(runs, nameOf(modules[0])+"/hooks/h.sh beforeHelm")
			}
		}
	}
	everything = everything || strings.Contains(strings.ToLower(asJSON(tasks)), "reload")
	got := s.lines()
	if ran := slices.Contains(got, "g.sh beforeAll"); ran != everything {
		s.Errorf("everything was started: %v; trace %v", ran, got)
	}
	for _, run := range runs {
		if !slices.Contains(got, run) {
			s.Errorf("the trace lacks %s: %v", run, got)
		}
	}
}

func TestSampleEventsAreParsedInAllForms(t *testing.T) {
	for text, want := range map[string]string{
		"{before: {a: x}, patch: {add: {b: u}, replace: {a: z}}}":                                    `{"a":"z","b":"u"}`,
		"{before: {a: x}, patch: {add: {b: u}, remove: [a]}}":                                        `{"a":null,"b":"u"}`,
		"{before: {a: x}, patch: {remove: {a: x}}}":                                                  `{"a":null}`,
		"{before: {a: x}, patch: {remove: a}}":                                                       `{"a":null}`,
		"{before: {a: x, b: u}, patch: {data: {b: z}}}":                                              `{"a":null,"b":"z"}`,
		"{before: {a: x, b: u}, after: {b: z}}":                                                      `{"a":null,"b":"z"}`,
		"{before: {a: x}, patch: [{op: add, path: /data/b, value: u}, {op: remove, path: /data/a}]}": `{"a":null,"b":"u"}`,
	} {
		var c eventRow
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if got := asJSON(c.change()); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	keys, modules := valid(map[string]any{"Bad-one": "a: 1", "global": "a: 1", "oneEnabled": "true", "two": "a: ["})
	if got := asJSON(keys) + asJSON(modules); got != `{"global":"a: 1","oneEnabled":"true"}["one"]` {
		t.Error(got)
	}
}

// nameOf is the module that a key most likely stands for: ingress-nginx for ingressNginx. Names such as module-1 do not
// round-trip; a caller who knows the modules compares their keys.
func nameOf(key string) string {
	var out strings.Builder
	for i, r := range key {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('-')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
