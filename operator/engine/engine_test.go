package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/kube"
	bindings "github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/queue"
)

// site is a cluster, a folder of hooks, and the trace that they leave.
type site struct {
	*testing.T
	cluster    *kube.Cluster
	dir, trace string
	log        *fixture.Buffer
}

func (s *site) in(name string, test func(*site)) {
	s.Run(name, func(t *testing.T) {
		one := &site{T: t, cluster: s.cluster, dir: t.TempDir(), log: &fixture.Buffer{}}
		one.trace = filepath.Join(t.TempDir(), "trace")
		test(one)
	})
}

// hook writes a hook that prints a configuration, and otherwise traces its contexts and runs a script.
func (s *site) hook(name, config, script string) {
	s.Helper()
	text := fmt.Sprintf(`#!/bin/bash
if [[ $1 == --config ]]; then cat <<'CONFIG'
%s
CONFIG
exit; fi
printf '%%s %%s\n' %s "$(tr -d '\n' < "$BINDING_CONTEXT_PATH")" >> "$TRACE"
%s
`, config, name, script)
	if err := fixture.WriteProgram(filepath.Join(s.dir, name), text); err != nil {
		s.Fatal(err)
	}
}

func (s *site) options() engine.Options {
	return engine.Options{
		HooksDir: s.dir, Cluster: s.cluster, Log: slog.New(slog.NewTextHandler(s.log, nil)), MetricsPrefix: "shell_operator_",
		Runner: hook.Runner{TempDir: s.TempDir(), Set: []string{"TRACE=" + s.trace}},
	}
}

// start runs an engine until the test ends, or until the returned function is called.
func (s *site) start() (e *engine.Engine, stop func()) {
	s.Helper()
	e, err := engine.Load(s.Context(), s.options())
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	over := make(chan struct{})
	go func() { e.Run(ctx); close(over) }()
	stop = sync.OnceFunc(func() { cancel(); <-over })
	s.Cleanup(stop)
	return e, stop
}

// runs are the runs of hooks, each as the hook's name and its contexts.
func (s *site) runs() []string {
	data, err := os.ReadFile(s.trace)
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return slices.Collect(func(yield func(string) bool) {
		for line := range strings.Lines(string(data)) {
			if !yield(strings.TrimSpace(line)) {
				return
			}
		}
	})
}

func (s *site) until(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within a minute; runs:\n%s\nlog:\n%s", what, strings.Join(s.runs(), "\n"), s.log)
		}
	}
}

// short writes a run without the objects: the hook, and for each context its binding, type and event with the object's name.
func short(s *site, run string) string {
	name, text, _ := strings.Cut(run, " ")
	var contexts []struct {
		Binding, Type, WatchEvent string
		Object                    *struct{ Metadata struct{ Name string } }
		Objects                   []json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &contexts); err != nil {
		s.Fatalf("%s: %v", run, err)
	}
	for _, c := range contexts {
		name += " " + c.Binding
		if c.Type != "" {
			name += ":" + c.Type
		}
		if c.Object != nil {
			name += ":" + c.WatchEvent + ":" + c.Object.Metadata.Name
		}
		if c.Type == "Synchronization" {
			name += fmt.Sprintf(":%d", len(c.Objects))
		}
	}
	return name
}

func (s *site) shorts() (all []string) {
	for _, run := range s.runs() {
		all = append(all, short(s, run))
	}
	return all
}

func (s *site) ran(want ...string) {
	s.Helper()
	s.until("runs", func() bool { return len(s.runs()) >= len(want) })
	if got := s.shorts(); !slices.Equal(got, want) {
		s.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (s *site) apply(text string) {
	s.Helper()
	controlplane.Apply(s, s.cluster, text)
}

func configMap(namespace, name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: %s}\ndata: {%s}\n", namespace, namespace, name, data)
}

func binding(name, namespace, more string) string {
	return fmt.Sprintf("{name: %s, kind: ConfigMap, namespace: {nameSelector: {matchNames: [%s]}}%s}", name, namespace, more)
}

func TestEngine(t *testing.T) {
	cluster, err := kube.Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, cluster: cluster}
	s.in("a start has its order, and events come after it", testOrder)
	s.in("the sample of a start", testSampleOfStart)
	s.in("events wait until the synchronization has succeeded", testEventsWait)
	s.in("a synchronization has no events after it that it has shown", testShownOnce)
	s.in("a group runs once for all that changed", testGroup)
	s.in("schedules tick, once for a crontab", testSchedule)
	s.in("an answer patches objects and reports metrics", testAnswer)
	s.in("a hook that may fail holds up nothing", testAllowFailure)
	s.in("a failed hook may still set a status", testFailedStatus)
	s.in("a kind that comes later delays its own binding", testLateKind)
	s.in("a hook of version v0 gets names", testV0)
	s.in("a rate limit joins events", testRate)
	s.in("a removed hook does not wait for its rate", testRateOfARemoved)
	s.in("a review whose turn comes too late has no answer", testRateOfReviews)
	s.in("an owner gives hooks more to read and takes their answers", testOwner)
	s.in("a hook watches pods", testPods)
	s.in("a hook copies secrets", testSecretCopier)
	s.in("a stop ends the hook that runs", testStop)
	s.in("a standby keeps no events", testStandby)
}

// testStandby: what changed while another operator led is in the synchronization, and is not an event.
func testStandby(s *site) {
	s.apply(configMap("standby", "a", ""))
	s.hook("h", "configVersion: v1\nkubernetes:\n- "+binding("maps", "standby", "")+"\n"+
		"kubernetesValidating:\n- {name: a.example.com, includeSnapshotsFrom: [maps], rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n", "")
	e, err := engine.Load(s.Context(), s.options())
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	over := make(chan struct{})
	e.Standby(ctx)
	sees := func(n int) bool { return len(e.Hooks()[0].Snapshots()["maps"]) == n }
	s.until("the standby sees an object", func() bool { return sees(1) })
	s.apply(configMap("standby", "b", ""))
	s.until("the standby sees another object", func() bool { return sees(2) })
	go func() { e.Run(ctx); close(over) }()
	s.Cleanup(func() { cancel(); <-over })
	s.ran("h maps:Synchronization:2")
	s.apply(configMap("standby", "c", ""))
	s.ran("h maps:Synchronization:2", "h maps:Event:Added:c")
}

func testOrder(s *site) {
	s.apply(configMap("order", "a", ""))
	s.hook("b.sh", "configVersion: v1\nonStartup: 10", "")
	s.hook("a.sh", "configVersion: v1\nonStartup: 10\nkubernetes: ["+binding("maps", "order", "")+"]", "")
	s.hook("c.sh", "configVersion: v1\nonStartup: 1\nkubernetes: ["+binding("first", "order", "")+", "+binding("quiet", "order", ", executeHookOnSynchronization: false")+"]", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	s.ran("c.sh onStartup", "a.sh onStartup", "b.sh onStartup", "a.sh maps:Synchronization:1", "c.sh first:Synchronization:1")
	s.apply(configMap("order", "b", ""))
	s.until("three events", func() bool { return strings.Count(strings.Join(s.shorts(), " "), ":Event:Added:b") == 3 })
}

// testSampleOfStart runs the hooks of the sample startup_tasks. They trace the file name and the contexts.
func testSampleOfStart(s *site) {
	type row struct {
		Fixture         string
		ExpectTaskOrder []struct{ Run, Hook string }
	}
	var file struct{ Cases []row }
	data, err := os.ReadFile(upstreamcases.Path(s, "operator/addon-operator/operator.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		s.Fatal(err)
	}
	at := slices.IndexFunc(file.Cases, func(c row) bool { return c.Fixture == "startup_tasks" })
	if at < 0 {
		s.Skip("operator.yaml has no row of startup_tasks")
	}
	c := file.Cases[at]
	hooks, err := filepath.Glob(filepath.Join(upstreamcases.Path(s, "operator/addon-operator/fixtures/operator/"+c.Fixture), "global-hooks", "*.sh"))
	if err != nil || len(hooks) < 3 {
		s.Fatal(hooks, err)
	}
	for _, name := range hooks {
		text, err := os.ReadFile(name)
		if err != nil {
			s.Fatal(err)
		}
		if err := fixture.WriteProgram(filepath.Join(s.dir, filepath.Base(name)), text); err != nil {
			s.Fatal(err)
		}
	}
	e, _ := s.start()
	s.until("ready", e.Ready)
	var want []string
	for _, one := range c.ExpectTaskOrder {
		if one.Run != "" && one.Hook != "" {
			want = append(want, one.Hook+" onStartup")
		}
	}
	want = append(want, "hook01 kind1:Synchronization:0") // hook03 does not request one
	var got []string
	for _, run := range s.shorts() {
		name, contexts, _ := strings.Cut(run, " ")
		number, _, _ := strings.Cut(name, "_")
		got = append(got, number+" "+contexts)
	}
	if !slices.Equal(got, want) {
		s.Errorf("got %v, want %v", got, want)
	}
	s.Logf("%d of %d rows of operator.yaml checked; package lifecycle checks all", 1, len(file.Cases))
}

func testEventsWait(s *site) {
	s.apply(configMap("wait", "a", ""))
	s.hook("hook.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "wait", ", queue: other, waitForSynchronization: false")+"]",
		`grep -q Synchronization "$BINDING_CONTEXT_PATH" || exit 0; until [ -e "$TRACE.go" ]; do sleep 0.05; done`)
	s.hook("other.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "wait", ", executeHookOnSynchronization: false, executeHookOnEvent: [Modified]")+"]", "")
	e, _ := s.start()
	s.until("main does not wait for the other queue", e.Ready)
	s.until("the synchronization runs", func() bool { return len(s.runs()) == 1 })
	s.apply(configMap("wait", "b", ""))
	s.apply(configMap("wait", "b", "x: '1'"))
	s.until("another hook has seen the events", func() bool { return len(s.runs()) == 2 })
	if err := os.WriteFile(s.trace+".go", nil, 0o600); err != nil {
		s.Fatal(err)
	}
	s.ran("hook.sh maps:Synchronization:1", "other.sh maps:Event:Modified:b", "hook.sh maps:Event:Added:b maps:Event:Modified:b")
}

func testGroup(s *site) {
	s.apply(configMap("group", "a", ""))
	s.hook("hook.sh", "configVersion: v1\nkubernetes: ["+binding("one", "group", ", group: g")+", "+binding("two", "group", ", group: g, jqFilter: .metadata.name, keepFullObjectsInMemory: false")+"]", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	s.ran("hook.sh two:Group")
	if run := s.runs()[0]; !strings.Contains(run, `"groupName":"g"`) || !strings.Contains(run, `"two":[{"filterResult":"a"}]`) || !strings.Contains(run, `"one":[{"object":{"apiVersion":"v1"`) {
		s.Error(run)
	}
}

func testSchedule(s *site) {
	s.hook("hook.sh", "configVersion: v1\nschedule: [{name: one, crontab: '* * * * * *', queue: q}, {name: two, crontab: '* * * * * *', queue: q, includeSnapshotsFrom: [maps]}, {name: never, crontab: 0 0 31 2 *}]\nkubernetes: ["+
		binding("maps", "default", ", executeHookOnSynchronization: false")+"]", "")
	s.start()
	s.until("two ticks", func() bool { return len(s.runs()) > 1 })
	first := s.runs()[0]
	if got := short(s, first); !strings.HasPrefix(got, "hook.sh one:Schedule two:Schedule") || !strings.Contains(first, `{"binding":"two","snapshots":{"maps":[`) {
		s.Error(first)
	}
}

func testAnswer(s *site) {
	s.apply(configMap("answer", "a", ""))
	s.hook("hook.sh", "configVersion: v1\nonStartup: 1", `
echo '{"name":"hook_metric","add":1,"labels":{"kind":"pod"}}' > $METRICS_PATH
cat > $KUBERNETES_PATCH_PATH <<EOF
operation: MergePatch
kind: configmap
namespace: answer
name: a
mergePatch: {data: {set: by-hook}}
EOF
echo hello`)
	s.hook("watcher.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "answer", ", jqFilter: .data")+"]", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	s.until("two runs", func() bool { return len(s.runs()) == 2 })
	if run := s.runs()[1]; !strings.Contains(run, `"filterResult":{"set":"by-hook"}`) {
		s.Error(run)
	}
	s.apply(configMap("answer", "b", ""))
	s.until("an event", func() bool { return len(s.runs()) == 3 })
	own, reported := e.Metrics()
	all, err := prometheus.Gatherers{own, reported}.Gather()
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, family := range all {
		names = append(names, family.GetName())
	}
	for _, name := range []string{
		"hook_metric", "shell_operator_hook_run_seconds", "shell_operator_hook_run_success_total", "shell_operator_hook_run_user_cpu_seconds",
		"shell_operator_hook_run_sys_cpu_seconds", "shell_operator_hook_run_max_rss_bytes", "shell_operator_tasks_queue_length", "shell_operator_task_wait_in_queue_seconds_total",
		"shell_operator_live_ticks", "shell_operator_binding_count", "shell_operator_kube_snapshot_objects", "shell_operator_kube_snapshot_bytes",
		"shell_operator_kube_jq_filter_duration_seconds", "shell_operator_kube_event_duration_seconds", "shell_operator_tasks_queue_action_duration_seconds",
		"shell_operator_hook_enable_kubernetes_bindings_seconds", "shell_operator_hook_enable_kubernetes_bindings_success", "shell_operator_hook_enable_kubernetes_bindings_errors_total",
	} {
		if !slices.Contains(names, name) {
			s.Errorf("there is no metric %s in %v", name, names)
		}
	}
	if !strings.Contains(s.log.String(), "msg=hello hook=hook.sh") {
		s.Errorf("the log lacks what the hook printed:\n%s", s.log)
	}
}

func testAllowFailure(s *site) {
	s.apply(configMap("allow", "a", ""))
	s.hook("a.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "allow", ", allowFailure: true")+"]", "echo '{\"name\":\"no\",\"add\":1}' > $METRICS_PATH; exit 1")
	s.hook("b.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "allow", "")+"]", "[ -e $TRACE.fail ] || { touch $TRACE.fail; echo no luck; exit 1; }")
	s.hook("c.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "allow", "")+"]", "")
	e, _ := s.start()
	s.until("b.sh has failed", func() bool { return strings.Contains(s.log.String(), "failures=1") })
	if head := e.Queues().States()[0].Tasks[0]; head.Hook != "b.sh" || head.Failures != 1 || !strings.Contains(head.Error, "no luck") {
		s.Errorf("%+v", head)
	}
	s.until("b.sh is tried again", func() bool { e.Queues().Wake("main"); return len(s.runs()) == 4 })
	s.ran("a.sh maps:Synchronization:1", "b.sh maps:Synchronization:1", "b.sh maps:Synchronization:1", "c.sh maps:Synchronization:1")
	_, reported := e.Metrics()
	if all, err := reported.Gather(); err != nil || len(all) > 0 {
		s.Errorf("a failed hook reports %v, %v", all, err)
	}
}

func testFailedStatus(s *site) {
	s.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: failed}\n")
	s.hook("hook.sh", "configVersion: v1\nkubernetes: [{name: namespaces, kind: Namespace, nameSelector: {matchNames: [failed]}, jqFilter: .status.conditions, allowFailure: true}]", `
cat > $KUBERNETES_PATCH_PATH <<EOF
{operation: MergePatch, kind: Namespace, name: failed, subresource: status, ignoreHookError: true, mergePatch: {status: {conditions: [{type: Checked, status: "False"}]}}}
---
{operation: MergePatch, kind: Namespace, name: failed, mergePatch: {metadata: {labels: {not: set}}}}
EOF
exit 1`)
	s.start()
	s.until("the status is seen", func() bool { return strings.Contains(strings.Join(s.runs(), "\n"), "Checked") })
	if strings.Contains(strings.Join(s.runs(), "\n"), `"not":"set"`) {
		s.Error("a patch of a failed hook was done")
	}
}

func testLateKind(s *site) {
	s.hook("a.sh", "configVersion: v1\nkubernetes: [{name: gears, apiVersion: example.org/v1, kind: gear}]", "")
	s.hook("b.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "late", "")+"]", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	s.ran("b.sh maps:Synchronization:0")
	s.apply(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Gear, plural: gears}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	s.ran("b.sh maps:Synchronization:0", "a.sh gears:Synchronization:0")
	s.apply("apiVersion: example.org/v1\nkind: Gear\nmetadata: {name: g, namespace: default}\n")
	s.ran("b.sh maps:Synchronization:0", "a.sh gears:Synchronization:0", "a.sh gears:Event:Added:g")
}

func testV0(s *site) {
	s.apply(configMap("old", "a", ""))
	s.hook("hook.sh", "onKubernetesEvent: [{name: maps, kind: configmap, event: [add], namespaceSelector: {matchNames: [old]}}]", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	s.apply(configMap("old", "b", ""))
	s.until("a run", func() bool { return len(s.runs()) > 0 })
	if got, want := s.runs()[0], `hook.sh [{"binding":"maps","resourceEvent":"add","resourceKind":"ConfigMap","resourceName":"b","resourceNamespace":"old"}]`; got != want {
		s.Errorf("got %s", got)
	}
}

func testRate(s *site) {
	s.apply(configMap("rate", "a", ""))
	s.hook("hook.sh", "configVersion: v1\nsettings: {executionMinInterval: 5s, executionBurst: 1}\nkubernetes: ["+binding("maps", "rate", "")+"]", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	for i := range 5 {
		s.apply(configMap("rate", "a", fmt.Sprintf("i: '%d'", i)))
	}
	s.ran("hook.sh maps:Synchronization:1", "hook.sh"+strings.Repeat(" maps:Event:Modified:a", 5))
}

// testRateOfARemoved: runs of a removed hook do not wait for its rate, and block nobody.
func testRateOfARemoved(s *site) {
	s.hook("hook.sh", "configVersion: v1\nsettings: {executionMinInterval: 1h, executionBurst: 1}\nonStartup: 1", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	h, removed, over := e.Hooks()[0], make(chan struct{}), make(chan struct{})
	e.Queues().Add(bindings.MainQueue, &queue.Task{Name: "hold", Do: func(context.Context, *queue.Queue, *queue.Task) error { <-removed; return nil }})
	for range 3 {
		e.Queues().Add(bindings.MainQueue, e.Task(h, bindings.Common{}, bindings.Context{Type: bindings.OnSchedule, Binding: "every"}))
	}
	e.Queues().Add(bindings.MainQueue, &queue.Task{Name: "after", Do: func(context.Context, *queue.Queue, *queue.Task) error { close(over); return nil }})
	e.Remove(h)
	close(removed)
	s.until("the queue goes on", func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	s.ran("hook.sh onStartup")
}

func testStop(s *site) {
	s.hook("hook.sh", "configVersion: v1\nonStartup: 1", "trap 'echo stopped >> $TRACE.stopped; exit 1' TERM; touch $TRACE.set; sleep 60 & wait")
	_, stop := s.start()
	s.until("the hook runs", func() bool { _, err := os.Stat(s.trace + ".set"); return err == nil })
	begin := time.Now()
	stop()
	if _, err := os.Stat(s.trace + ".stopped"); err != nil || time.Since(begin) > 30*time.Second {
		s.Errorf("after %s: %v", time.Since(begin), err)
	}
}

func TestLoadNamesHooksWithoutConfiguration(t *testing.T) {
	s := &site{T: t, dir: t.TempDir()}
	s.hook("a.sh", "configVersion: v2", "")
	s.hook("b.sh", "configVersion: v1\nonStartup: first", "")
	s.hook("c.sh", "configVersion: v1\nkubernetesValidating: [{name: a.b}]", "")
	_, err := engine.Load(t.Context(), engine.Options{HooksDir: s.dir})
	for _, want := range []string{"hook a.sh: 'configVersion' value 'v2'", "hook b.sh: onStartup: must be an integer", "hook c.sh: kubernetesValidating[0].name: Invalid value: \"a.b\": should be a domain"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
