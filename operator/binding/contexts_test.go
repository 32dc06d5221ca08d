package binding_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/jq"
)

// occurrence is one entry of a sample's binding context, with the sample's description of its cause.
type occurrence struct {
	t      *testing.T
	given  map[string]any
	v0, v1 map[string]any
}

var (
	filterWords = regexp.MustCompile(`(?:^|[ ,;])jqFilter ['"` + "`" + `]?(\.[^\s,;'"` + "`" + `]*)`)
	objectWords = regexp.MustCompile(`([a-z0-9][a-z0-9-]*)/([a-z0-9][a-z0-9.-]*)`)
)

// context is the event: as described by the sample, or else as the content of either version shows it. Both versions describe
// the same context, so each of them is checked with the other's description.
func (o occurrence) context() binding.Context {
	c := binding.Context{
		Binding: o.text("binding"), Group: o.text("group"), Moment: binding.Moment(o.text("type")), Event: binding.Event(o.text("watchEvent")),
		Review: o.raw(o.v1, "review"), FromVersion: o.text("fromVersion"), ToVersion: o.text("toVersion"),
	}
	_, changed := o.v0["resourceEvent"]
	switch o.v1["type"] {
	case "Schedule":
		c.Type = binding.OnSchedule
	case "Validating":
		c.Type = binding.OnValidating
	case "Mutating":
		c.Type = binding.OnMutating
	case "Conversion":
		c.Type = binding.OnConversion
	case "Group":
		if c.Group == "" {
			c.Group, _ = o.v1["groupName"].(string)
		}
		c.Type, c.Moment = binding.OnSchedule, ""
		if changed {
			c.Type, c.Moment = binding.OnKubernetes, binding.OneEvent
		}
	case "Synchronization", "Event":
		c.Type = binding.OnKubernetes
	case nil:
		if c.Type = binding.Type(c.Binding); changed {
			c.Type = binding.OnKubernetes
		}
	default:
		o.t.Fatalf("no context has the type %v", o.v1["type"])
	}
	if c.Event == "" {
		c.Event = map[string]binding.Event{"add": binding.Added, "update": binding.Modified, "delete": binding.Deleted}[o.of(o.v0, "resourceEvent")]
	}
	o.snapshots(&c)
	o.objects(&c)
	return c
}

// text is a field as given, or else as in the outcomes: v0 knows a binding of a group by its own name.
func (o occurrence) text(key string) string {
	for _, from := range []map[string]any{o.given, o.v0, o.v1} {
		if text := o.of(from, key); text != "" {
			return text
		}
	}
	return ""
}

func (occurrence) of(from map[string]any, key string) string {
	text, _ := from[key].(string)
	return text
}

// raw is a field as JSON, or nil if it is absent.
func (o occurrence) raw(from map[string]any, key string) json.RawMessage {
	value, ok := from[key]
	if !ok {
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		o.t.Fatal(err)
	}
	return data
}

func (o occurrence) snapshots(c *binding.Context) {
	all, ok := o.v1["snapshots"].(map[string]any)
	names, said := o.given["includeSnapshotsFrom"].([]any)
	for _, name := range names {
		c.Include = append(c.Include, name.(string))
	}
	if !said {
		c.Include = slices.Sorted(maps.Keys(all))
	}
	c.IncludeAll, c.Snapshots = ok && len(c.Include) == 0, map[string][]binding.Object{}
	for name, objects := range all {
		words, _ := o.given["snapshot "+name].(string)
		c.Snapshots[name] = o.list(objects, words)
	}
}

// objects are those of a kubernetes binding. A hook of v0 knows the name of the first.
func (o occurrence) objects(c *binding.Context) {
	words := o.words()
	switch all, ok := o.v1["objects"]; {
	case ok:
		c.Objects = o.list(all, words)
	case o.v1["type"] == "Event":
		c.Objects = []binding.Object{o.object(o.v1, words)}
	case o.of(o.v0, "resourceName") != "":
		c.Objects = []binding.Object{{}}
	}
	if len(c.Objects) > 0 && c.Objects[0].Name == "" {
		c.Objects[0].Kind, c.Objects[0].Namespace, c.Objects[0].Name = o.of(o.v0, "resourceKind"), o.of(o.v0, "resourceNamespace"), o.of(o.v0, "resourceName")
	}
}

// words are the sample's description of the binding's objects.
func (o occurrence) words() string {
	var all []string
	for _, key := range []string{"object", "objects", "jqFilter"} {
		if text := o.of(o.given, key); text != "" {
			all = append(all, text)
			if key == "jqFilter" {
				all[len(all)-1] = "jqFilter " + text
			}
		}
	}
	return strings.Join(all, ", ")
}

// list reads objects. Those that the sample names are the ones of the list, in their order.
func (o occurrence) list(value any, words string) (all []binding.Object) {
	entries, ok := value.([]any)
	if !ok {
		o.t.Errorf("%v is not a list of objects", value)
	}
	var got, want []string
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		one := o.object(fields, words)
		all, got = append(all, one), append(got, one.Namespace+"/"+one.Name)
	}
	for _, m := range objectWords.FindAllStringSubmatch(words, -1) {
		want = append(want, m[0])
	}
	if len(want) > 0 && len(got) > 0 && got[0] != "/" && !slices.Equal(got, want) {
		o.t.Errorf("the objects are %v, and the sample speaks of %v", got, want)
	}
	return all
}

// object is one entry of a list, or an event. The result of a filter that the sample names is worked out here.
func (o occurrence) object(fields map[string]any, words string) binding.Object {
	one := binding.Object{Full: o.raw(fields, "object"), Result: o.raw(fields, "filterResult")}
	if full, ok := fields["object"].(map[string]any); ok {
		meta, _ := full["metadata"].(map[string]any)
		one.Kind, one.Namespace, one.Name = o.of(full, "kind"), o.of(meta, "namespace"), o.of(meta, "name")
		if m := filterWords.FindStringSubmatch(words); m != nil && !strings.Contains(words, "without jqFilter") {
			filter, err := jq.Compile(m[1])
			if err != nil {
				o.t.Fatal(err)
			}
			result, err := filter.Apply(o.t.Context(), full)
			if err != nil {
				o.t.Fatal(err)
			}
			one.Result = o.raw(map[string]any{"": result}, "")
		}
	}
	if strings.Contains(words, "without jqFilter") {
		one.Result = nil
	}
	return one
}

// contextRow is a sample of a binding context.
type contextRow struct {
	Name   string
	Given  json.RawMessage
	V0, V1 []map[string]any
}

func TestBindingContextsMatchSamples(t *testing.T) {
	var file struct{ Cases []contextRow }
	sample(t, "binding_context.json", &file)
	checked := 0
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) { checked += c.check(t) })
	}
	t.Logf("%d cases, %d contexts of binding_context.json checked", len(file.Cases), checked)
}

// check compares what hooks of both versions get, as far as the sample has them, and counts that.
func (c *contextRow) check(t *testing.T) (checked int) {
	if len(c.V0)+len(c.V1) == 0 {
		t.Fatal("nothing to compare")
	}
	if c.V0 != nil && c.V1 != nil && len(c.V0) != len(c.V1) {
		t.Fatal("the versions have not as many contexts")
	}
	var contexts []binding.Context
	for i := range max(len(c.V0), len(c.V1)) {
		o := occurrence{t: t, given: given(c.Given, i)}
		if i < len(c.V0) {
			o.v0 = c.V0[i]
		}
		if i < len(c.V1) {
			o.v1 = c.V1[i]
		}
		contexts = append(contexts, o.context())
	}
	for version, want := range map[string][]map[string]any{"v0": c.V0, "v1": c.V1} {
		if want == nil {
			continue
		}
		data, err := binding.Encode(version, contexts)
		if err != nil {
			t.Fatal(err)
		}
		var got []map[string]any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
		checked++
	}
	return checked
}

// TestSampleContextsAreReadInAllForms uses a row of each form that hooks get.
func TestSampleContextsAreReadInAllForms(t *testing.T) {
	for _, text := range []string{
		`{"name": "startup", "v0": [{"binding": "onStartup"}], "v1": [{"binding": "onStartup"}]}`,
		`{"name": "event", "given": {"watchEvent": "Added", "object": "default/a, jqFilter .metadata.name"},
"v0": [{"binding": "pods", "resourceEvent": "add", "resourceKind": "Pod", "resourceName": "a", "resourceNamespace": "default"}],
"v1": [{"binding": "pods", "type": "Event", "watchEvent": "Added", "filterResult": "a", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}}]}`,
		`{"name": "deletion", "given": {}, "v0": [{"binding": "pods", "resourceEvent": "delete", "resourceKind": "Pod", "resourceName": "a", "resourceNamespace": "x"}]}`,
		`{"name": "nothing", "v0": [{"binding": "pods", "resourceEvent": ""}], "v1": [{"binding": "pods", "type": "Synchronization", "objects": []}]}`,
		`{"name": "group", "given": {"group": "g"}, "v1": [{"binding": "pods", "type": "Group", "groupName": "g", "snapshots": {"pods": []}}]}`,
		`{"name": "all", "v1": [{"binding": "beforeAll", "snapshots": {}}, {"binding": "afterHelm", "snapshots": {"a": [{"filterResult": null}]}}]}`,
		`{"name": "review", "v1": [{"binding": "a.b.c", "type": "Validating", "review": {"request": {}}}, {"binding": "m.b.c", "type": "Mutating", "review": {}}]}`,
		`{"name": "conversion", "v1": [{"binding": "c", "type": "Conversion", "fromVersion": "v1", "toVersion": "v2", "review": {}, "snapshots": {"a": []}}]}`,
	} {
		var c contextRow
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.Name, func(t *testing.T) { c.check(t) })
	}
}

// given is a sample's description of its entry i: one description is for all, a list has one for each.
func given(text json.RawMessage, i int) (fields map[string]any) {
	var each []map[string]any
	if json.Unmarshal(text, &each) == nil && i < len(each) {
		return each[i]
	}
	if json.Unmarshal(text, &fields) != nil {
		var words string
		if json.Unmarshal(text, &words) == nil {
			return map[string]any{"objects": words}
		}
	}
	return fields
}
