package metric_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/metric"
)

func TestMetricOperationsMatchSamples(t *testing.T) {
	var file struct {
		Cases []struct {
			DefaultGroup    string
			Stream          string
			Operations      []map[string]any
			ValidationError string
		}
	}
	data, err := os.ReadFile(upstreamcases.Path(t, "operator/shell-operator/metric_operations.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range file.Cases {
		got, err := metric.Parse([]byte(c.Stream))
		checked++
		wrong := c.ValidationError != ""
		if c.DefaultGroup != "" {
			wrong = withoutGroup(t, c.Stream, c.DefaultGroup, c.ValidationError, c.Operations)
		}
		if (err != nil) != wrong {
			t.Errorf("%s: %v, and the sample %q", c.Stream, err, c.ValidationError)
		}
		if err != nil {
			continue
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var plain []map[string]any
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Operations, plain); diff != "" {
			t.Errorf("%s: %s", c.Stream, diff)
		}
	}
	t.Logf("%d of %d rows of metric_operations.json checked", checked, len(file.Cases))
}

// withoutGroup turns a row of HEAD into one of the seed, which has no default group: it removes that group from operations without
// one, and reports whether the row is still invalid. Only outside a group may a hook observe, and only in a group expire.
func withoutGroup(t *testing.T, stream, group, mistakes string, operations []map[string]any) (wrong bool) {
	t.Helper()
	for line := range strings.Lines(mistakes) {
		one, ok := strings.CutPrefix(strings.TrimSpace(line), "* ")
		if !ok {
			continue
		}
		ofGroup := strings.HasPrefix(one, "unsupported action 'observe'") && strings.Contains(one, "group="+group)
		wrong = wrong || !ofGroup
	}
	if mistakes != "" && !strings.Contains(mistakes, "* ") {
		wrong = true
	}
	dec := json.NewDecoder(strings.NewReader(stream))
	for i := 0; ; i++ {
		var own map[string]any
		if dec.Decode(&own) != nil {
			return wrong
		}
		if own["group"] != nil && own["group"] != "" {
			// With a separate group the operation is also invalid for the seed.
			wrong = wrong || own["action"] == "observe" && mistakes != ""
			continue
		}
		if i < len(operations) {
			delete(operations[i], "group")
		}
		wrong = wrong || own["action"] == "expire"
	}
}

func TestHEADRowsWithoutGroup(t *testing.T) {
	const observes = "1 error occurred:\n\t* unsupported action 'observe': [group=hook.sh, name=m, action=observe]\n\n"
	for _, c := range []struct {
		stream, mistakes string
		want             bool
	}{
		{`{"name":"m","action":"observe","value":1,"buckets":[1]}`, observes, false},
		{`{"name":"m","action":"observe","value":1,"buckets":[1],"group":"hook.sh"}`, observes, true},
		{`{"name":"m","set":1,"add":1}`, "1 error occurred:\n\t* 'set' and 'add' are mutual exclusive: [group=hook.sh, name=m]\n\n", true},
		{`{"action":"expire"}`, "", true},
		{`{"name":"m","set":1}`, "", false},
	} {
		if got := withoutGroup(t, c.stream, "hook.sh", c.mistakes, nil); got != c.want {
			t.Errorf("%s: wrong is %v", c.stream, got)
		}
		if _, err := metric.Parse([]byte(c.stream)); (err != nil) != c.want {
			t.Errorf("%s: %v", c.stream, err)
		}
	}
}

func TestMistakesRefuseWholeStream(t *testing.T) {
	for stream, want := range map[string]string{
		`{"name":"m","add":1} {"nme":"m","add":1}`:                            "operation 2: 'name' is required",
		`{"name":"m","action":"set","set":1,"add":1}`:                         "exclude each other",
		`{"name":"m","add":1} {"name"`:                                        "operation 2: not JSON",
		`{"name":"m"}`:                                                        "one of 'action', 'set' or 'add' is required",
		`{"name":"m","action":"drop","value":1}`:                              "unsupported action 'drop'",
		`{"name":"m","action":"set"}`:                                         "'value' is required",
		`{"name":"m","add":-1}`:                                               "a counter cannot fall",
		`{"name":"my metric","set":1}`:                                        `'name' "my metric"`,
		`{"name":"m","set":1,"labels":{"a-b":"c"}}`:                           `label "a-b"`,
		`{"name":"m","set":1,"labels":{"a":1}}`:                               "labels.a: must be a string",
		`{"name":"m","action":"observe","value":1}`:                           "'buckets' is required",
		`{"name":"m","action":"observe","value":1,"buckets":[2,1]}`:           "'buckets' must rise",
		`{"name":"m","group":"g","action":"observe","value":1,"buckets":[1]}`: "'observe' in a group",
		`{"action":"expire"}`:                                                 "'expire' without a group",
		`[{"name":"m","add":1}]`:                                              "must be an object",
	} {
		if got, err := metric.Parse([]byte(stream)); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", stream, err)
		}
	}
}

// TestShellOperatorFormsAreAccepted: short forms beside an action, null keys, and other keys.
func TestShellOperatorFormsAreAccepted(t *testing.T) {
	for stream, want := range map[string]string{
		`{"name":"m","action":"set","set":5}`:                                             `{"name":"m","action":"set","value":5,"labels":null,"set":5}`,
		`{"name":"m","action":"set","add":2}`:                                             `{"name":"m","action":"add","value":2,"labels":null,"add":2}`,
		`{"name":"m","action":"set","value":1,"help":"of a hook"}`:                        `{"name":"m","action":"set","value":1,"labels":null}`,
		`{"name":"m","set":1,"group":null,"buckets":null,"add":null,"labels":{"a":null}}`: `{"name":"m","action":"set","value":1,"labels":{"a":""},"set":1}`,
	} {
		operations, err := metric.Parse([]byte(stream))
		if err != nil {
			t.Errorf("%s: %v", stream, err)
			continue
		}
		if got, _ := json.Marshal(operations[0]); string(got) != want {
			t.Errorf("%s: %s", stream, got)
		}
	}
}

// TestSeedExampleIsAccepted follows the seed's example of two hooks through four runs.
func TestSeedExampleIsAccepted(t *testing.T) {
	var store metric.Store
	run := func(hook, stream string) {
		t.Helper()
		operations, err := metric.Parse([]byte(stream))
		if err == nil {
			err = store.Apply(operations, map[string]string{"hook": hook})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(want ...string) {
		t.Helper()
		registry := prometheus.NewRegistry()
		registry.MustRegister(&store)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, family := range families {
			if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
				t.Fatal(err)
			}
		}
		var lines []string
		for line := range strings.Lines(text.String()) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		slices.Sort(lines)
		if slices.Sort(want); !slices.Equal(lines, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	}
	run("hook1.sh", `
{"group":"hook1", "name":"hook_metric", "action":"add", "value":1, "labels":{"kind":"pod"}}
{"group":"hook1", "name":"hook_metric", "action":"add", "value":1, "labels":{"kind":"replicaset"}}
{"group":"hook1", "name":"hook_metric", "action":"add", "value":1, "labels":{"kind":"deployment"}}
{"group":"hook1", "name":"hook1_special_metric", "action":"set", "value":12, "labels":{"label1":"value1"}}
{"group":"hook1", "name":"common_metric", "action":"set", "value":300, "labels":{"source":"source3"}}
{"name":"common_metric", "action":"set", "value":100, "labels":{"source":"source1"}}`)
	run("hook2.sh", `
{"group":"hook2", "name":"hook_metric","action":"add", "value":1, "labels":{"kind":"configmap"}}
{"group":"hook2", "name":"hook_metric","action":"add", "value":1, "labels":{"kind":"secret"}}
{"group":"hook2", "name":"hook2_special_metric", "action":"set", "value":42}
{"name":"common_metric", "action":"set", "value":200, "labels":{"source":"source2"}}`)
	rest := []string{
		`hook_metric{hook="hook2.sh",kind="configmap"} 1`, `hook_metric{hook="hook2.sh",kind="secret"} 1`, `hook2_special_metric{hook="hook2.sh"} 42`,
	}
	common := []string{`common_metric{hook="hook1.sh",source="source1"} 100`, `common_metric{hook="hook2.sh",source="source2"} 200`}
	is(slices.Concat(rest, common, []string{
		`hook_metric{hook="hook1.sh",kind="pod"} 1`, `hook_metric{hook="hook1.sh",kind="replicaset"} 1`, `hook_metric{hook="hook1.sh",kind="deployment"} 1`,
		`hook1_special_metric{hook="hook1.sh",label1="value1"} 12`, `common_metric{hook="hook1.sh",source="source3"} 300`,
	})...)
	run("hook1.sh", `{"group":"hook1", "name":"hook_metric", "action":"add", "value":1, "labels":{"kind":"pod"}}`)
	is(slices.Concat(rest, common, []string{`hook_metric{hook="hook1.sh",kind="pod"} 2`})...)
	run("hook2.sh", `{"group":"hook2", "action":"expire"}`)
	is(append(common, `hook_metric{hook="hook1.sh",kind="pod"} 2`)...)
}

func TestSeriesOfOneNameShareTheirType(t *testing.T) {
	var store metric.Store
	apply := func(stream string) error {
		operations, err := metric.Parse([]byte(stream))
		if err != nil {
			t.Fatal(err)
		}
		return store.Apply(operations, map[string]string{"hook": "h"})
	}
	if err := apply(`{"name":"m","add":1} {"name":"m","add":1,"labels":{"a":"b"}} {"name":"d","action":"observe","value":0.5,"buckets":[0.1,1]}`); err != nil {
		t.Fatal(err)
	}
	if err := apply(`{"name":"m","add":2,"labels":{"a":"","c":null}}`); err != nil {
		t.Fatal(err)
	}
	if err := apply(`{"name":"m","add":5} {"name":"m","set":1}`); err == nil || !strings.Contains(err.Error(), "metric m is a counter") {
		t.Errorf("a counter that is set: %v", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&store)
	want := `
# HELP d d
# TYPE d histogram
d_bucket{hook="h",le="0.1"} 0
d_bucket{hook="h",le="1"} 1
d_bucket{hook="h",le="+Inf"} 1
d_sum{hook="h"} 0.5
d_count{hook="h"} 1
# HELP m m
# TYPE m counter
m{hook="h"} 3
m{a="b",hook="h"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"name":"m","set":1.5,"labels":{"a":"b"}} {"group":"g","action":"expire"}`))
	f.Add([]byte(`{"name":"m","action":"observe","value":0.42,"buckets":[0.1,1]}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		operations, err := metric.Parse(stream)
		if err != nil {
			return
		}
		var store metric.Store
		if store.Apply(operations, map[string]string{"hook": "h"}) != nil {
			return
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(&store)
		if _, err := registry.Gather(); err != nil {
			t.Errorf("%s: %v", stream, err)
		}
	})
}
