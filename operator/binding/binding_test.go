package binding_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/operator/binding"
)

func TestMistakesNameHookAndKey(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"nothing printed", " \n", "printed nothing for --config"},
		{"no YAML", "a: [", "neither YAML nor JSON"},
		{"a list", "[]", "must be an object, not an array"},
		{"no binding", "configVersion: v1", "needs at least 2 keys"},
		{"a mistyped binding", "configVersion: v1\nonStart: 1", `onStart: is a forbidden property; did you mean "onStartup"?`},
		{"an order that is text", "configVersion: v1\nonStartup: \"1\"", "onStartup: must be an integer, not a string"},
		{"a wrong crontab", "configVersion: v1\nschedule: [{crontab: 0 25 * * *}]", `schedule[0].crontab: crontab "0 25 * * *" is invalid`},
		{"day 7 of the week", "configVersion: v1\nschedule: [{crontab: 0 0 * * 7}]", "schedule[0].crontab"},
		{"a zone and no fields", "configVersion: v1\nschedule: [{crontab: TZ=Europe/Berlin}]", "schedule[0].crontab"},
		{"an unknown zone", "configVersion: v1\nschedule: [{crontab: TZ=Nowhere/Town 0 0 * * *}]", "schedule[0].crontab"},
		{"a snapshot of nothing", "configVersion: v1\nschedule: [{crontab: '@hourly', includeSnapshotsFrom: [pods]}]",
			"schedule[0].includeSnapshotsFrom[0]: there is no kubernetes binding 'pods'"},
		{"a snapshot of two", "configVersion: v1\nkubernetes: [{kind: Pod, name: a}, {kind: Node, name: a, includeSnapshotsFrom: [a]}]",
			"kubernetes[1].includeSnapshotsFrom[0]: there are 2 kubernetes bindings 'a'"},
		{"two selectors of a name", "configVersion: v1\nkubernetes: [{kind: Pod, nameSelector: {matchNames: [a]}, fieldSelector: {matchExpressions: [{field: metadata.name, operator: '=', value: a}]}}]",
			"kubernetes[0].fieldSelector.matchExpressions[0].field"},
		{"a selector without values", "configVersion: v1\nkubernetes: [{kind: Pod, labelSelector: {matchExpressions: [{key: a, operator: In}]}}]", "kubernetes[0].labelSelector"},
		{"an apiVersion of three parts", "configVersion: v1\nkubernetes: [{kind: Pod, apiVersion: a/b/c}]", "kubernetes[0].apiVersion"},
		{"an interval that is none", "configVersion: v1\nonStartup: 1\nsettings: {executionMinInterval: often}", "settings.executionMinInterval"},
		{"a negative burst", "configVersion: v1\nonStartup: 1\nsettings: {executionBurst: -1}", "settings.executionBurst: -1 is negative"},
		{"two intervals", "configVersion: v1\nonStartup: 1\nsettings: {executionMinInterval: 3s, executionMinPeriod: 4s}", "settings.executionMinPeriod: 4s is another value"},
		{"a webhook's name of two segments", "configVersion: v1\nkubernetesMutating: [{name: b.c}]", "kubernetesMutating[0].name: Invalid value: \"b.c\": should be a domain with at least three segments"},
		{"a webhook's name that is not a domain", "configVersion: v1\nkubernetesValidating: [{name: Pods.example.com}]", "kubernetesValidating[0].name: Invalid value: \"Pods.example.com\""},
		{"a timeout above the server's", "configVersion: v1\nkubernetesValidating: [{name: a.b.c, timeoutSeconds: 31}]", "kubernetesValidating[0].timeoutSeconds"},
		{"every operation and one", webhookWith(`operations: ["*", CREATE]`), "kubernetesValidating[0].rules[0].operations: * stands beside others"},
		{"every group and one", webhookWith(`apiGroups: ["", "*"]`), "rules[0].apiGroups: * stands beside others"},
		{"every version and one", webhookWith(`apiVersions: ["*", v1]`), "rules[0].apiVersions: * stands beside others"},
		{"a version without a name", webhookWith(`apiVersions: [v1, ""]`), "rules[0].apiVersions[1]: is empty"},
		{"every resource and one", webhookWith(`resources: ["*", pods]`), "rules[0].resources: * stands beside pods"},
		{"everything and one", webhookWith(`resources: [pods, "*/*"]`), "rules[0].resources[1]: */* has all resources"},
		{"every subresource and one", webhookWith(`resources: ["pods/*", pods/status]`), "rules[0].resources[1]: pods/status is in pods/* already"},
		{"a subresource of all and of one", webhookWith(`resources: ["*/scale", deployments/scale]`), "rules[0].resources[1]: deployments/scale is in */scale already"},
		{"a resource without a name", webhookWith(`resources: [""]`), "rules[0].resources[0]: is empty"},
		{"two webhooks of one name", "configVersion: v1\nkubernetesMutating: [{name: a.b.c}, {name: d.e.f}, {name: a.b.c}]", "kubernetesMutating[2].name: kubernetesMutating[0] has the name a.b.c, too"},
		{"two conditions of one name", "configVersion: v1\nkubernetesMutating: [{name: a.b.c, matchConditions: [{name: x, expression: 'true'}, {name: x, expression: 'true'}]}]",
			"kubernetesMutating[0].matchConditions[1].name: matchConditions[0] has the name x, too"},
		{"a condition without an expression", "configVersion: v1\nkubernetesMutating: [{name: a.b.c, matchConditions: [{name: x, expression: ' '}]}]", "kubernetesMutating[0].matchConditions[0].expression: is empty"},
		{"a condition's name with a space", "configVersion: v1\nkubernetesMutating: [{name: a.b.c, matchConditions: [{name: x y, expression: 'true'}]}]", "kubernetesMutating[0].matchConditions[0].name: name part must consist of"},
		{"v0: a mistyped binding", "onKubernetesEvents: []", `did you mean "onKubernetesEvent"?`},
		{"v0: an event of v1", "onKubernetesEvent: [{kind: Pod, event: [Added]}]", `onKubernetesEvent[0].event[0]: "Added" is not one of`},
		{"v0: a wrong crontab", "schedule: [{crontab: often}]", "schedule[0].crontab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := binding.Parse("001-mod/hooks/hook.sh", []byte(c.config), binding.Shell)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "configuration of hook 001-mod/hooks/hook.sh: ") {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// webhookWith is a configuration with a webhook whose rule has another list.
func webhookWith(list string) string {
	lists := map[string]string{"apiGroups": `[""]`, "apiVersions": "[v1]", "operations": "[CREATE]", "resources": "[pods]"}
	key, value, _ := strings.Cut(list, ": ")
	lists[key] = value
	return fmt.Sprintf("configVersion: v1\nkubernetesValidating: [{name: a.b.c, rules: [{apiGroups: %s, apiVersions: %s, operations: %s, resources: %s}]}]",
		lists["apiGroups"], lists["apiVersions"], lists["operations"], lists["resources"])
}

// TestRuleServerAcceptsIsAccepted has lists similar to the refused ones.
func TestRuleServerAcceptsIsAccepted(t *testing.T) {
	for _, list := range []string{`operations: ["*"]`, `operations: [CREATE, CREATE]`, `apiGroups: ["*"]`, `apiGroups: ["", apps]`, `resources: ["*"]`, `resources: ["*/*"]`, `resources: [pods, "*"]`,
		`resources: ["*", pods/status]`, `resources: [pods, pods/status, "deployments/*", "*/scale"]`} {
		if _, err := binding.Parse("hook.sh", []byte(webhookWith(list)), binding.Shell); err != nil {
			t.Error(err)
		}
	}
}

func TestIntervalMayHaveBothNames(t *testing.T) {
	c, err := binding.Parse("hook.sh", []byte("configVersion: v1\nonStartup: 1\nsettings: {executionMinInterval: 3s, executionMinPeriod: 3000ms}\n"), binding.Shell)
	if err != nil || c.MinInterval != 3*time.Second {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestDuplicateKeyIsAWarning(t *testing.T) {
	for text, warns := range map[string]bool{
		"configVersion: v1\nonStartup: 1\nonStartup: 2\n": true, `{"configVersion":"v1","onStartup":1,"onStartup":2}`: true, "configVersion: v1\nonStartup: 2\n": false,
	} {
		c, err := binding.Parse("hook.sh", []byte(text), binding.Shell)
		if err != nil || c.Orders[binding.OnStartup] != 2 || (len(c.Warnings) > 0) != warns || warns && !strings.Contains(c.Warnings[0], "onStartup") {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

func TestDefaultsAreSet(t *testing.T) {
	c, err := binding.Parse("hook.sh", []byte(`
configVersion: v1
settings: {executionMinInterval: 3s, executionBurst: 2}
schedule:
- {crontab: "@every 30s", group: g}
- {crontab: "TZ=UTC 0 0 * JAN MON", queue: q}
kubernetes:
- {kind: Pod, group: g, watchEvent: [Added], executeHookOnEvent: [], name: pods,
   namespace: {nameSelector: {matchNames: [a, b, a]}, labelSelector: {matchLabels: {app: web}}},
   fieldSelector: {matchExpressions: [{field: status.phase, operator: NotEquals, value: Failed}, {field: spec.nodeName, operator: "=", value: node-1}]}}
- {kind: Node, waitForSynchronization: false, queue: nodes, keepFullObjectsInMemory: false, executeHookOnSynchronization: false}
`), binding.Shell)
	if err != nil {
		t.Fatal(err)
	}
	pods, nodes, first, second := c.Kubernetes[0], c.Kubernetes[1], c.Schedules[0], c.Schedules[1]
	for _, fact := range []struct {
		what string
		is   bool
	}{
		{"settings", c.MinInterval == 3*time.Second && c.Burst == 2},
		{"a schedule of a group includes its bindings", first.Name == "schedule" && strings.Join(first.Include, ",") == "pods" && first.Queue == "main"},
		{"a schedule without one includes nothing", second.Include == nil && second.Queue == "q"},
		{"an empty executeHookOnEvent wins over watchEvent", len(pods.Events) == 0},
		{"namespaces are named once", strings.Join(pods.Namespaces, ",") == "a,b" && pods.NamespaceLabels == "app=web"},
		{"field selectors are joined", pods.Fields == "status.phase!=Failed,spec.nodeName=node-1"},
		{"nobody waits where the queue is its own", !nodes.Wait && nodes.Name == "kubernetes"},
		{"what is switched off is off", !nodes.KeepFull && !nodes.OnSynchronization && len(nodes.Events) == 3},
	} {
		if !fact.is {
			t.Errorf("%s: %+v", fact.what, c)
		}
	}
}

func TestContextsHaveExactKeys(t *testing.T) {
	review := json.RawMessage(`{"request":{"uid":"<1>"}}`)
	for _, c := range []struct {
		name    string
		context binding.Context
		want    string
	}{
		{"onStartup", binding.Context{Type: binding.OnStartup, Binding: "onStartup", Include: []string{"a"}}, `{"binding":"onStartup"}`},
		{"beforeAll without kubernetes bindings", binding.Context{Type: binding.BeforeAll, Binding: "beforeAll", IncludeAll: true}, `{"binding":"beforeAll","snapshots":{}}`},
		{"afterHelm with a snapshot without objects", binding.Context{Type: binding.AfterHelm, Binding: "afterHelm", IncludeAll: true, Include: []string{"pods"}},
			`{"binding":"afterHelm","snapshots":{"pods":[]}}`},
		{"synchronization without objects", binding.Context{Type: binding.OnKubernetes, Binding: "pods", Moment: binding.Synchronization},
			`{"binding":"pods","objects":[],"type":"Synchronization"}`},
		{"objects that are kept neither full nor filtered", binding.Context{Type: binding.OnKubernetes, Binding: "pods", Moment: binding.Synchronization, Objects: []binding.Object{{Name: "a"}}},
			`{"binding":"pods","objects":[{}],"type":"Synchronization"}`},
		{"deleted", binding.Context{Type: binding.OnKubernetes, Binding: "pods", Moment: binding.OneEvent, Event: binding.Deleted, Objects: []binding.Object{{Full: json.RawMessage(`{"a":1}`)}}},
			`{"binding":"pods","object":{"a":1},"type":"Event","watchEvent":"Deleted"}`},
		{"group", binding.Context{Type: binding.OnKubernetes, Binding: "pods", Group: "g", Include: []string{"pods"}, Moment: binding.Synchronization},
			`{"binding":"pods","groupName":"g","snapshots":{"pods":[]},"type":"Group"}`},
		{"schedule", binding.Context{Type: binding.OnSchedule, Binding: "every"}, `{"binding":"every","type":"Schedule"}`},
		{"validating, where a group only adds snapshots", binding.Context{Type: binding.OnValidating, Binding: "a.b.c", Group: "g", Review: review},
			`{"binding":"a.b.c","review":{"request":{"uid":"<1>"}},"type":"Validating"}`},
		{"mutating", binding.Context{Type: binding.OnMutating, Binding: "a.b.c", Review: review}, `{"binding":"a.b.c","review":{"request":{"uid":"<1>"}},"type":"Mutating"}`},
		{"conversion", binding.Context{Type: binding.OnConversion, Binding: "up", Review: review, FromVersion: "v1alpha1", ToVersion: "v1"},
			`{"binding":"up","fromVersion":"v1alpha1","review":{"request":{"uid":"<1>"}},"toVersion":"v1","type":"Conversion"}`},
	} {
		got, err := binding.Encode("v1", []binding.Context{c.context})
		if want := "[" + c.want + "]"; err != nil || string(got) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.name, err, got, want)
		}
	}
	event := binding.Context{Type: binding.OnKubernetes, Binding: "pods", Moment: binding.OneEvent, Event: binding.Modified, Objects: []binding.Object{{Kind: "Pod", Namespace: "n", Name: "a"}}}
	want := `[{"binding":"pods","resourceEvent":"update","resourceKind":"Pod","resourceName":"a","resourceNamespace":"n"}]`
	if got, err := binding.Encode("v0", []binding.Context{event}); err != nil || string(got) != want {
		t.Errorf("v0: %v\ngot  %s\nwant %s", err, got, want)
	}
}

// TestFieldsOfDaysWithStarMustBothMatch: also with a step, as in shell-operator.
func TestFieldsOfDaysWithStarMustBothMatch(t *testing.T) {
	start := time.Date(2026, time.November, 29, 12, 0, 0, 0, time.UTC) // a Sunday
	for crontab, want := range map[string]string{
		"TZ=UTC 0 0 */2 * MON":      "2026-12-07T00:00:00Z",
		"TZ=UTC 30 0 0 ?/2 * 1":     "2026-12-07T00:00:30Z",
		"TZ=UTC 0 0 2 * */2":        "2027-01-02T00:00:00Z",
		"TZ=UTC 0 0 5,*/10 * MON":   "2026-12-21T00:00:00Z",
		"TZ=UTC 0 0 2 * MON":        "2026-11-30T00:00:00Z", // one of them
		"TZ=UTC 0 0 * * MON":        "2026-11-30T00:00:00Z",
		"TZ=UTC @weekly":            "2026-12-06T00:00:00Z",
		"TZ=UTC 0 0 1-31/2 * MON":   "2026-11-30T00:00:00Z",
		"TZ=UTC 0 0 29-31/2 1 */6 ": "2027-01-31T00:00:00Z",
	} {
		schedule, err := binding.ParseCrontab(crontab)
		if err != nil {
			t.Errorf("%s: %v", crontab, err)
			continue
		}
		if got := schedule.Next(start).Format(time.RFC3339); got != want {
			t.Errorf("%s is next at %s, want %s", crontab, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"configVersion: v1\nonStartup: 10\nschedule: [{crontab: 'TZ=UTC */5 * * * *'}]",
		`{"configVersion":"v1","kubernetes":[{"kind":"Pod","jqFilter":".metadata","labelSelector":{"matchLabels":{"a":"b"}}}]}`,
		`{"onKubernetesEvent":[{"kind":"pod","event":["add"],"namespaceSelector":{"any":true}}],"schedule":[{"crontab":"@every 1s"}]}`,
		"configVersion: v1\nkubernetesValidating: [{name: a.b.c}]\nkubernetesCustomResourceConversion: [{name: x, crdName: y, conversions: [{fromVersion: a, toVersion: b}]}]",
		"configVersion: v1\nschedule: [{crontab: TZ=}]", "configVersion: v1\nschedule: [{crontab: '@every 1000000h'}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, printed []byte) {
		for _, scope := range []binding.Scope{binding.Shell, binding.Global, binding.Module} {
			c, err := binding.Parse("hook", printed, scope)
			if (c == nil) == (err == nil) {
				t.Fatalf("%v and %v", c, err)
			}
			for i := range valid(c).Schedules {
				if next, err := binding.ParseCrontab(c.Schedules[i].Crontab); err != nil {
					t.Fatal(err)
				} else {
					next.Next(time.Unix(0, 0))
				}
			}
		}
	})
}

// valid returns c, or an empty configuration for nil.
func valid(c *binding.Config) *binding.Config {
	if c == nil {
		return &binding.Config{}
	}
	return c
}
