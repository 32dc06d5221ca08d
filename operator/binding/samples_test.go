package binding_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/testgrid/cases"
)

// sample reads a file of samples into cases.
func sample(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(cases.Path(t, "operator/shell-operator/"+name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// keys are the keys that an error of upstream names, without the path before them.
var keys = regexp.MustCompile(`(?:\* |config \[\d+\] |: )([\w.\[\]]*\w) in body|(jqFilter|webhooks\[0\]\.name)`)

func TestSamplesOfHookConfigurations(t *testing.T) {
	var file struct {
		Cases []struct {
			Name          string
			Config        string
			Valid         bool
			UpstreamError string
			Normalized    map[string]any
			SeedExpect    *struct{ Valid bool }
		}
	}
	sample(t, "hook_config.json", &file)
	checked := 0
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			checked++
			if c.SeedExpect != nil {
				c.Valid = c.SeedExpect.Valid
			}
			got, err := binding.Parse("hook.sh", []byte(c.Config), binding.Shell)
			if (err == nil) != c.Valid {
				t.Fatalf("valid is to be %v: %v", c.Valid, err)
			}
			if err != nil {
				for _, m := range keys.FindAllStringSubmatch(c.UpstreamError, -1) {
					path := strings.Split(m[1]+m[2], ".")
					if key := path[len(path)-1]; !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "hook.sh") {
						t.Errorf("the error does not name key %s and the hook: %v", key, err)
					}
				}
				return
			}
			normal := normalized(got)
			for key := range normal {
				if _, ok := c.Normalized[key]; !ok {
					delete(normal, key)
				}
			}
			if diff := cmp.Diff(c.Normalized, throughJSON(t, normal)); c.Normalized != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Logf("%d of %d rows of hook_config.json checked", checked, len(file.Cases))
}

func throughJSON(t *testing.T, value any) (out map[string]any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// normalized writes a configuration in the words of the samples.
func normalized(c *binding.Config) map[string]any {
	one := func(b binding.Common, more map[string]any) map[string]any {
		more["bindingName"], more["allowFailure"], more["group"], more["queue"] = b.Name, b.AllowFailure, b.Group, b.Queue
		if len(b.Include) > 0 {
			more["includeSnapshotsFrom"] = b.Include
		}
		return more
	}
	kube, schedules, conversions := []any{}, []any{}, []any{}
	for _, k := range c.Kubernetes {
		mode := ""
		if c.Version == "v0" {
			mode = "v0"
		}
		filter := ""
		if k.Filter != nil {
			filter = k.Filter.String()
		}
		kube = append(kube, one(k.Common, map[string]any{
			"executeHookOnSynchronization": k.OnSynchronization, "waitForSynchronization": k.Wait, "keepFullObjectsInMemory": k.KeepFull,
			"monitor": map[string]any{
				"apiVersion": k.APIVersion, "kind": k.Kind, "eventTypes": append([]binding.Event{}, k.Events...),
				"jqFilter": filter, "keepFullObjectsInMemory": k.KeepFull, "mode": mode,
			},
		}))
	}
	for _, s := range c.Schedules {
		schedules = append(schedules, one(s.Common, map[string]any{"scheduleEntry": map[string]any{"crontab": s.Crontab}}))
	}
	for _, v := range c.Conversions {
		entry := one(v.Common, map[string]any{"webhook": map[string]any{"crdName": v.CRD, "rules": v.Steps}})
		delete(entry, "queue")
		conversions = append(conversions, entry)
	}
	out := map[string]any{
		"version": c.Version, "onKubernetesEvents": kube, "schedules": schedules, "kubernetesConversion": conversions,
		"kubernetesMutating": append([]any{}, make([]any, len(c.Mutating))...), "kubernetesValidating": append([]any{}, make([]any, len(c.Validating))...),
	}
	if order, ok := c.Orders[binding.OnStartup]; ok {
		out["onStartup"] = map[string]any{"bindingName": "onStartup", "allowFailure": false, "order": order}
	}
	return out
}

func pod(name, result string) binding.Object {
	o := binding.Object{
		Kind: "Pod", Namespace: "default", Name: name,
		Full: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"` + name + `"}}`),
	}
	if result != "" {
		o.Result = json.RawMessage(result)
	}
	return o
}

// given are the contexts that the samples describe in words.
var given = map[string]binding.Context{
	"schedule with snapshots": {
		Type: binding.OnSchedule, Binding: "every-5m", Include: []string{"pods"}, Snapshots: map[string][]binding.Object{"pods": {pod("a", `"a"`)}},
	},
	"synchronization": {
		Type: binding.OnKubernetes, Binding: "pods", Moment: binding.Synchronization, Objects: []binding.Object{pod("a", ""), pod("b", "")},
	},
	"event with jqFilter, keepFullObjectsInMemory false": {
		Type: binding.OnKubernetes, Binding: "pods", Moment: binding.OneEvent, Event: binding.Modified, Objects: []binding.Object{{Result: json.RawMessage("null")}},
	},
}

func TestSamplesOfBindingContexts(t *testing.T) {
	var file struct {
		Cases []struct {
			Name   string
			V0, V1 []any
		}
	}
	sample(t, "binding_context.json", &file)
	checked := 0
	for _, c := range file.Cases {
		context, ok := given[c.Name]
		if !ok {
			t.Errorf("sample %q is not written down here", c.Name)
			continue
		}
		for version, want := range map[string][]any{"v0": c.V0, "v1": c.V1} {
			if want == nil {
				continue
			}
			data, err := binding.Encode(version, []binding.Context{context})
			if err != nil {
				t.Fatal(err)
			}
			var got []any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: %s", c.Name, version, diff)
			}
			checked++
		}
	}
	if checked < len(file.Cases) {
		t.Errorf("%d contexts checked for %d cases", checked, len(file.Cases))
	}
	t.Logf("%d cases, %d contexts of binding_context.json checked", len(file.Cases), checked)
}

func TestSamplesOfTheSeed(t *testing.T) {
	// The configuration of the seed's section "Synchronization for global hooks".
	const config = `
configVersion: v1
beforeAll: 10
kubernetes:
- {name: monitor-pods, apiVersion: v1, kind: Pod, jqFilter: ".metadata.labels"}
- {name: monitor-cms, apiVersion: v1, kind: ConfigMap, queue: config-map-handling, waitForSynchronization: false}
`
	c, err := binding.Parse("hook.sh", []byte(config), binding.Global)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Kubernetes[0].Wait || c.Kubernetes[1].Wait || c.Orders[binding.BeforeAll] != 10 || !slices.Equal(c.KubernetesNames(), []string{"monitor-pods", "monitor-cms"}) {
		t.Errorf("%+v", c)
	}
	if _, err := binding.Parse("hook.sh", []byte(config), binding.Module); err == nil || !strings.Contains(err.Error(), "beforeAll: is a forbidden property") {
		t.Errorf("beforeAll in a module hook: %v", err)
	}
}
