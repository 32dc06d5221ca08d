package binding_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admission "k8s.io/api/admissionregistration/v1"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/binding"
)

// sample reads a file of samples into cases.
func sample(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(upstreamcases.Path(t, "operator/shell-operator/"+name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// keys are the keys that an error of upstream names, without the path before them.
var keys = regexp.MustCompile(`(?:\* |config \[\d+\] |: )([\w.\[\]]*\w) in body|(jqFilter|webhooks\[0\]\.name)`)

func TestHookConfigurationsMatchSamples(t *testing.T) {
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
			plain := throughJSON(t, normal)
			asked(c.Normalized, plain)
			if diff := gocmp.Diff(c.Normalized, plain); c.Normalized != nil && diff != "" {
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

// webhook has the names of the API server. An operator without another default registers with the policy Fail.
func webhook(a *binding.Admission) map[string]any {
	policy := admission.Fail
	return map[string]any{
		"name": a.Name, "rules": a.Rules, "sideEffects": a.SideEffects, "timeoutSeconds": a.Timeout, "matchConditions": a.Conditions,
		"failurePolicy":  *cmp.Or(a.FailurePolicy, &policy),
		"objectSelector": a.Labels, "namespaceSelector": a.NamespaceLabels,
	}
}

// asked drops the settings of an admission webhook that a sample says nothing about. Null and an absent key are the same.
func asked(want, got map[string]any) {
	for _, kind := range []string{"kubernetesValidating", "kubernetesMutating"} {
		wants, _ := want[kind].([]any)
		gots, _ := got[kind].([]any)
		for i := range min(len(wants), len(gots)) {
			wanted, has := settings(wants[i])
			gives, _ := settings(gots[i])
			if !has {
				delete(gots[i].(map[string]any), "webhook")
			}
			maps.DeleteFunc(gives, func(key string, value any) bool { _, ok := wanted[key]; return value == nil || !ok })
			maps.DeleteFunc(wanted, func(_ string, value any) bool { return value == nil })
		}
	}
}

// settings are those of the webhook of an entry.
func settings(entry any) (map[string]any, bool) {
	fields, _ := entry.(map[string]any)
	webhook, ok := fields["webhook"].(map[string]any)
	return webhook, ok
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
	admissions := func(all []binding.Admission) []any {
		entries := []any{}
		for i := range all {
			entry := one(all[i].Common, map[string]any{"webhook": webhook(&all[i])})
			delete(entry, "queue")
			entries = append(entries, entry)
		}
		return entries
	}
	out := map[string]any{
		"version": c.Version, "onKubernetesEvents": kube, "schedules": schedules, "kubernetesConversion": conversions,
		"kubernetesMutating": admissions(c.Mutating), "kubernetesValidating": admissions(c.Validating),
	}
	if order, ok := c.Orders[binding.OnStartup]; ok {
		out["onStartup"] = map[string]any{"bindingName": "onStartup", "allowFailure": false, "order": order}
	}
	return out
}

func TestSeedMatchesSamples(t *testing.T) {
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

func TestWebhooksMatchSamples(t *testing.T) {
	c, err := binding.Parse("hook.sh", []byte(`
configVersion: v1
kubernetes: [{name: pods, kind: pods}]
kubernetesValidating:
- name: full.example.com
  includeSnapshotsFrom: [pods]
  rules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE], scope: Namespaced}]
  failurePolicy: Ignore
  namespace: {labelSelector: {matchLabels: {foo: bar}}}
kubernetesMutating: [{name: short.example.com, rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: ["*"]}]}]
`), binding.Shell)
	if err != nil {
		t.Fatal(err)
	}
	want := throughJSON(t, json.RawMessage(`{
"kubernetesValidating": [{"bindingName": "full.example.com", "allowFailure": false, "group": "", "includeSnapshotsFrom": ["pods"], "webhook": {
 "name": "full.example.com", "failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 10, "objectSelector": null,
 "namespaceSelector": {"matchLabels": {"foo": "bar"}},
 "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"], "scope": "Namespaced"}]}}],
"kubernetesMutating": [{"bindingName": "short.example.com", "allowFailure": false, "group": "", "webhook": {"failurePolicy": "Fail"}}]}`))
	normal := normalized(c)
	got := throughJSON(t, map[string]any{"kubernetesValidating": normal["kubernetesValidating"], "kubernetesMutating": normal["kubernetesMutating"]})
	asked(want, got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
