package lifecycle_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
)

func TestLifecycle(t *testing.T) {
	plane := controlplane.ForTest(t)
	cluster, err := kube.Connect(plane, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, cluster: cluster, plane: plane}
	s.alone("hundred", testHundred)
	s.in("steps", testSteps)
	s.in("first-run-fails", testFirstRunFails)
	s.in("discovery-fails", testDiscoveryFails)
	s.in("purge", testPurge)
	s.in("restart", testRestart)
	s.in("on-and-off", testOnAndOff)
	s.in("relations", testRelations)
	s.in("after-all", testAfterAll)
	s.in("edits", testEdits)
	s.in("own-writes", testOwnWrites)
	s.in("wrong-config", testWrongConfig)
	s.in("schemas", testSchemas)
	s.in("rules", testRules)
	s.in("definitions", testDefinitions)
	s.in("no-chart", testNoChart)
	s.in("told", testTold)
	s.in("sample-rows", testSampleRows)
	s.in("sample-operator", testSampleOperator)
	s.in("sample-saves", testSampleSaves)
	s.in("sample-events", testSampleEvents)
	s.in("sample-scenarios", testSampleScenarios)
	s.in("heal", testHeal)
	s.in("failing-off", testFailingOff)
	s.in("late-discovery", testLateDiscovery)
	s.in("late-values", testLateValues)
	s.in("queued-early", testQueuedEarly)
	s.in("unreadable-config", testUnreadableConfig)
	s.in("lost-place", testLostPlace)
	s.in("lasting-flags", testLastingFlags)
	s.in("unwaited-flags", testUnwaitedFlags)
	s.in("bare-flags", testBareFlags)
	s.in("seed-synchronization", testSeedSynchronization)
}

// maps watches the ConfigMaps of a namespace, except the administrators'.
func (s *site) maps(more string) string {
	return fmt.Sprintf("{name: maps, kind: ConfigMap, namespace: {nameSelector: {matchNames: [%s]}}, labelSelector: {matchLabels: {seen: 'yes'}}%s}", s.namespace, more)
}

func (s *site) seen(name, data string) {
	s.apply(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: %s, labels: {seen: 'yes'}}\ndata: {x: '%s'}\n", s.namespace, name, data))
}

// printValues adds a hook's values file to the trace.
func printValues(variable, filter string) string {
	return fmt.Sprintf(`echo "  $(jq -c '%s' "$%s")" >> $TRACE`, filter, variable)
}

// testSteps follows the steps that addon-operator's documentation lists, from the start to the end of the first reload.
func testSteps(s *site) {
	s.seen("a", "1")
	s.file("modules/values.yaml", "global: {a: 1}\nfirstEnabled: true\nsecondEnabled: true\nthirdEnabled: false\nfourthEnabled: true\nfifthEnabled: false\n")
	s.file("modules/001-first/templates/x.yaml", "")
	s.file("modules/002-second/enabled", "#!/bin/bash\n"+printValues("VALUES_PATH", ".global.enabledModules")+"\necho false > $MODULE_ENABLED_RESULT\n")
	s.file("modules/003-third/templates/x.yaml", "")
	s.file("modules/004-fourth/enabled", "#!/bin/bash\n"+printValues("VALUES_PATH", ".global.enabledModules")+"\necho true > $MODULE_ENABLED_RESULT\n")
	s.file("modules/005-fifth/templates/x.yaml", "")
	global := "onStartup: %d\nbeforeAll: %d\nafterAll: %d\nkubernetes: [" + s.maps("") + "]"
	s.hook("global/b.sh", fmt.Sprintf(global, 1, 2, 3), printValues("VALUES_PATH", "."))
	s.hook("global/a.sh", fmt.Sprintf(global, 2, 1, 4), "")
	hooks := "onStartup: %d\nbeforeHelm: %d\nafterHelm: %d\nafterDeleteHelm: %[1]d\nbeforeDeleteHelm: %[1]d\nkubernetes: [" + s.maps("") + ", " + s.maps(", executeHookOnSynchronization: false") + "]"
	s.hook("modules/001-first/hooks/z.sh", fmt.Sprintf(hooks, 1, 2, 3), "")
	s.hook("modules/001-first/hooks/sub/y.sh", fmt.Sprintf(hooks, 2, 1, 4), "")
	s.hook("modules/003-third/hooks/d.sh", fmt.Sprintf(hooks, 1, 1, 1), "")
	s.hook("modules/004-fourth/hooks/h.sh", "beforeHelm: 1\nafterHelm: 1", printValues("VALUES_PATH", "[.global.enabledModules, .fourth]"))
	for _, name := range []string{"third", "fifth", "gone", "operator"} {
		s.releases.there[name] = helm.Record{Revision: 1, Status: "deployed"}
	}
	s.start()
	s.traced(
		"b.sh onStartup", `  {"global":{"a":1}}`, "a.sh onStartup",
		"a.sh maps:1", "b.sh maps:1", `  {"global":{"a":1}}`,
		"a.sh beforeAll", "b.sh beforeAll", `  {"global":{"a":1}}`,
		`  ["first"]`, `  ["first"]`,
		"helm uninstall fifth",
		"003-third/hooks/d.sh beforeDeleteHelm", "helm uninstall third", "003-third/hooks/d.sh afterDeleteHelm",
		"001-first/hooks/z.sh onStartup", "001-first/hooks/sub/y.sh onStartup",
		"001-first/hooks/sub/y.sh maps:1", "001-first/hooks/z.sh maps:1",
		"001-first/hooks/sub/y.sh beforeHelm", "001-first/hooks/z.sh beforeHelm", "helm upgrade first",
		"001-first/hooks/z.sh afterHelm", "001-first/hooks/sub/y.sh afterHelm",
		"004-fourth/hooks/h.sh beforeHelm", `  [["first","fourth"],{}]`, "004-fourth/hooks/h.sh afterHelm", `  [["first","fourth"],{}]`,
		"helm uninstall gone",
		"b.sh afterAll", `  {"global":{"a":1,"enabledModules":["first","fourth"]}}`, "a.sh afterAll",
	)
	if _, has := s.releases.last["first"]["global"].(map[string]any)["enabledModules"]; has {
		s.Error("the chart gets enabledModules")
	}
	s.seen("b", "1")
	s.until("four events", func() bool { return strings.Count(strings.Join(s.lines(), " "), "maps:b") == 6 })
}

// testPurge: releases of no module go in reverse order, and one that stays holds up nothing.
func testPurge(s *site) {
	s.hook("global/g.sh", "afterAll: 1", "")
	for _, name := range []string{"module-2", "module-5", "module-6"} {
		s.releases.there[name] = helm.Record{Revision: 1, Status: "deployed"}
	}
	s.releases.stuck = "module-5"
	s.idle(s.start())
	s.traced("helm uninstall module-6", "helm uninstall module-5", "helm uninstall module-2", "g.sh afterAll")
	if !strings.Contains(s.log.String(), "its hook failed") {
		s.Error("the log does not say what was not removed")
	}
}

// testFirstRunFails: a failed first run of a module begins again with onStartup, but without synchronization.
func testFirstRunFails(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.file("modules/a/templates/x.yaml", "")
	s.hook("modules/a/hooks/h.sh", "onStartup: 1\nbeforeHelm: 1\nafterHelm: 1\nkubernetes: ["+s.maps("")+"]",
		`grep -q afterHelm $BINDING_CONTEXT_PATH || exit 0; [ -e $TRACE.failed ] && exit 0; touch $TRACE.failed; exit 1`)
	o := s.run()
	s.until("it has failed", func() bool { return strings.Contains(s.log.String(), "failures=1") })
	o.Engine().Queues().Wake(binding.MainQueue)
	s.until("ready", o.Ready)
	s.traced("a/hooks/h.sh onStartup", "a/hooks/h.sh maps:0", "a/hooks/h.sh beforeHelm", "helm upgrade a", "a/hooks/h.sh afterHelm",
		"a/hooks/h.sh onStartup", "a/hooks/h.sh beforeHelm", "helm upgrade a", "a/hooks/h.sh afterHelm")
	if text := s.metrics(o); !strings.Contains(text, `addon_operator_module_run_errors_total{module="a"} 1`) {
		s.Error(text)
	}
}

func testDiscoveryFails(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\nbEnabled: true\n")
	s.file("modules/a/enabled", "#!/bin/bash\n[ -e $TRACE.go ] && echo ' true ' > $MODULE_ENABLED_RESULT || echo perhaps > $MODULE_ENABLED_RESULT\n")
	s.file("modules/b/hooks/h.sh", "#!/bin/bash\n[ -e $TRACE.go ] && echo '{configVersion: v1, beforeHelm: 1}' || echo nonsense: 1\n")
	o := s.run()
	s.until("discovery has failed", func() bool { return strings.Contains(s.log.String(), "failures=1") })
	for _, want := range []string{"hook a/enabled: bad enabled result", "task=\"discover modules\"", "pause=5s"} {
		if !strings.Contains(s.log.String(), want) {
			s.Errorf("%q is not in the log:\n%s", want, s.log)
		}
	}
	s.touch(".go")
	s.until("discovery is repeated", func() bool { o.Engine().Queues().Wake(binding.MainQueue); return o.Ready() })
	if text := s.metrics(o); !strings.Contains(text, "addon_operator_module_discover_errors_total ") {
		s.Error(text)
	}
}

// testRestart changes global values while a module fails: the reload restarts at once.
func testRestart(s *site) {
	s.file("modules/values.yaml", "global: {fail: 'yes'}\naEnabled: true\nbEnabled: true\n")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1", `[[ $(jq -r .global.fail $VALUES_PATH) == no ]]`)
	s.hook("modules/b/hooks/h.sh", "beforeHelm: 1", "")
	s.hook("global/g.sh", "beforeAll: 1\nafterAll: 1", "")
	o := s.run()
	s.until("the module has failed", func() bool { return strings.Contains(s.log.String(), "failures=1") })
	s.config(map[string]any{"global": "fail: 'no'\n"})
	s.until("ready", o.Ready)
	s.traced("g.sh beforeAll", "a/hooks/h.sh beforeHelm", "g.sh beforeAll", "a/hooks/h.sh beforeHelm", "b/hooks/h.sh beforeHelm", "g.sh afterAll")
}

// testLateDiscovery: a kind of a module is synchronized before Helm also where the API server lists it late.
func testLateDiscovery(s *site) {
	var asked atomic.Int32
	s.operators = s.behind(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/apis/"+s.namespace+".org/v1" || asked.Add(1) > 5 {
			return false
		}
		http.NotFound(w, r)
		return true
	})
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1\nkubernetes: [{name: cogs, kind: cog, apiVersion: "+s.namespace+".org/v1}]", "")
	s.file("modules/a/crds/cogs.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: cogs."+s.namespace+".org}\nspec: {group: "+s.namespace+
		".org, scope: Cluster, names: {kind: Cog, plural: cogs}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n")
	s.start()
	s.traced("a/hooks/h.sh cogs:0", "a/hooks/h.sh beforeHelm")
}

// definition is a CustomResourceDefinition of a kind that only one test has.
func (s *site) definition(kind string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + kind + "s." + s.namespace + ".org}\nspec: {group: " + s.namespace +
		".org, scope: Cluster, names: {kind: " + strings.ToUpper(kind[:1]) + kind[1:] + ", plural: " + kind +
		"s}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"
}

// testLateValues: a kind that appears after the modules have run is shown to hooks. What they make of it reaches the modules.
func testLateValues(s *site) {
	const patch = `grep -q Synchronization $BINDING_CONTEXT_PATH || exit 0
echo '{"op":"add","path":"/%s/found","value":1}' > $VALUES_JSON_PATCH_PATH`
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1\nkubernetes: [{name: gears, kind: gear, apiVersion: "+s.namespace+".org/v1}]", fmt.Sprintf(patch, "a"))
	s.hook("modules/a/hooks/print.sh", "beforeHelm: 2", printValues("VALUES_PATH", "[.global.found, .a.found]"))
	s.hook("global/g.sh", "beforeAll: 1\nkubernetes: [{name: wheels, kind: wheel, apiVersion: "+s.namespace+".org/v1}]", fmt.Sprintf(patch, "global"))
	o := s.start()
	s.traced("g.sh beforeAll", "a/hooks/h.sh beforeHelm", "a/hooks/print.sh beforeHelm", "  [null,null]")
	s.apply(s.definition("gear"))
	s.traced("a/hooks/h.sh gears:0", "a/hooks/h.sh beforeHelm", "a/hooks/print.sh beforeHelm", "  [null,1]")
	s.idle(o)
	s.apply(s.definition("wheel"))
	s.traced("g.sh wheels:0", "g.sh beforeAll", "a/hooks/h.sh beforeHelm", "a/hooks/print.sh beforeHelm", "  [1,1]")
}

// testQueuedEarly: a run that was queued before the kinds of the module are defined is left to the reload that defines them.
func testQueuedEarly(s *site) {
	held, release := make(chan struct{}, 1), make(chan struct{})
	s.operators = s.behind(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/customresourcedefinitions") {
			select {
			case held <- struct{}{}:
			default:
			}
			<-release
		}
		return false
	})
	s.file("modules/values.yaml", "aEnabled: true\nbEnabled: true\n")
	s.file("modules/a/crds/gears.yaml", s.definition("gear"))
	s.file("modules/b/crds/wheels.yaml", s.definition("wheel"))
	s.hook("modules/b/hooks/h.sh", "beforeHelm: 1", "")
	s.hook("global/g.sh", "beforeAll: 1", "")
	o := s.run()
	<-held
	tasks := func() int { return o.Engine().Queues().Lengths()[binding.MainQueue] }
	before := tasks()
	s.config(map[string]any{"b": "x: 1\n"})
	s.until("a run is queued", func() bool { return tasks() == before+1 })
	s.config(map[string]any{"global": "y: 1\n"})
	s.until("a reload is queued", func() bool { return tasks() == before+2 })
	close(release)
	s.until("ready", o.Ready)
	s.traced("g.sh beforeAll", "g.sh beforeAll", "b/hooks/h.sh beforeHelm")
}

// testUnreadableConfig: an edit that could not be read at once is not lost, and is not an administrator's mistake.
func testUnreadableConfig(s *site) {
	var refused atomic.Bool
	s.operators = s.behind(func(w http.ResponseWriter, r *http.Request) bool {
		if !refused.Load() || !strings.HasSuffix(r.URL.Path, "/configmaps/addon-operator") {
			return false
		}
		http.Error(w, "no", http.StatusForbidden)
		return true
	})
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1", "")
	s.config(map[string]any{"a": "x: 1\n"})
	o := s.start()
	s.traced("a/hooks/h.sh beforeHelm")
	s.idle(o)
	refused.Store(true)
	s.config(map[string]any{"a": "x: 2\n"})
	s.until("it cannot be read", func() bool { return strings.Contains(s.log.String(), "cannot be read; it is tried again") })
	refused.Store(false)
	s.traced("a/hooks/h.sh beforeHelm")
	if text := s.metrics(o); !strings.Contains(text, "addon_operator_config_values_errors_total 0") {
		s.Error(text)
	}
}

// testLostPlace: an edit may remove the map that a hook has added to.
func testLostPlace(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.hook("modules/a/hooks/h.sh", "onStartup: 1\nbeforeHelm: 2", `grep -q onStartup $BINDING_CONTEXT_PATH || exit 0
echo '[{"op":"add","path":"/a/map/y","value":1},{"op":"add","path":"/a/z","value":1}]' > $VALUES_JSON_PATCH_PATH`)
	s.hook("modules/a/hooks/print.sh", "beforeHelm: 1", printValues("VALUES_PATH", ".a"))
	s.config(map[string]any{"a": "map: {x: 1}\n"})
	o := s.start()
	s.traced("a/hooks/h.sh onStartup", "a/hooks/print.sh beforeHelm", `  {"map":{"x":1,"y":1},"z":1}`, "a/hooks/h.sh beforeHelm")
	s.idle(o)
	s.config(map[string]any{"a": "other: 1\n"})
	s.traced("a/hooks/print.sh beforeHelm", `  {"other":1,"z":1}`, "a/hooks/h.sh beforeHelm")
}

// testFailingOff: a failing module can be disabled, whichever of its runs is at the head of the queue.
func testFailingOff(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\nbEnabled: true\n")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1\nkubernetes: ["+s.maps("")+"]", `
case $(jq -r '.[0] | .binding + (.type // "")' $BINDING_CONTEXT_PATH) in
mapsSynchronization) [ ! -e $TRACE.sync ];;
mapsEvent) false;;
beforeHelm) [[ $(jq -r .a.fail $VALUES_PATH) != yes ]];;
esac`)
	s.hook("modules/b/hooks/h.sh", "afterHelm: 1", "")
	s.touch(".sync")
	o := s.run()
	failed := func(times int) {
		s.until("it has failed", func() bool { return strings.Count(s.log.String(), "failures=1 ") == times })
	}
	off := func() {
		s.config(map[string]any{"aEnabled": "false"})
		s.until("it is off", func() bool { return !o.Modules()[0].Enabled && o.Ready() })
		s.idle(o)
	}
	on := func() {
		s.config(map[string]any{"aEnabled": nil})
		s.until("it is on", func() bool { return o.Modules()[0].Enabled })
		s.idle(o)
	}
	failed(1)
	off()
	if err := os.Remove(s.trace + ".sync"); err != nil {
		s.Fatal(err)
	}
	on()
	s.seen("one", "1")
	failed(2)
	off()
	on()
	s.config(map[string]any{"a": "fail: 'yes'\n"})
	failed(3)
	off()
	s.traced("a/hooks/h.sh maps:0", "b/hooks/h.sh afterHelm",
		"a/hooks/h.sh maps:0", "a/hooks/h.sh beforeHelm", "b/hooks/h.sh afterHelm", "a/hooks/h.sh maps:one", "b/hooks/h.sh afterHelm",
		"a/hooks/h.sh maps:1", "a/hooks/h.sh beforeHelm", "b/hooks/h.sh afterHelm", "a/hooks/h.sh beforeHelm", "b/hooks/h.sh afterHelm")
}

func testOnAndOff(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\nbEnabled: true\n")
	s.file("modules/a/templates/x.yaml", "")
	s.hook("modules/a/hooks/h.sh", "onStartup: 1\nafterDeleteHelm: 1\nkubernetes: ["+s.maps("")+"]", "")
	// b is on if a is
	s.file("modules/b/enabled", `#!/bin/bash
jq -c 'any(.global.enabledModules[]; . == "a")' $VALUES_PATH > $MODULE_ENABLED_RESULT; echo a is missing > $MODULE_ENABLED_REASON
`)
	s.hook("modules/b/hooks/h.sh", "onStartup: 1\nafterDeleteHelm: 1", "")
	o := s.start()
	s.traced("a/hooks/h.sh onStartup", "a/hooks/h.sh maps:0", "helm upgrade a", "b/hooks/h.sh onStartup")
	s.config(map[string]any{"aEnabled": "false"})
	s.traced("b/hooks/h.sh afterDeleteHelm", "helm uninstall a", "a/hooks/h.sh afterDeleteHelm")
	s.idle(o)
	s.seen("one", "1")
	if text := asJSON(o.Modules()); !strings.Contains(text, `"why":"its enabled script says false: a is missing"`) && !strings.Contains(text, `"why":"the ConfigMap says false"`) {
		s.Error(text)
	}
	s.config(map[string]any{"aEnabled": nil})
	s.traced("a/hooks/h.sh onStartup", "a/hooks/h.sh maps:1", "helm upgrade a", "b/hooks/h.sh onStartup")
}

// testRelations: a module runs after the one that it requires, and is disabled while that is.
func testRelations(s *site) {
	s.file("modules/values.yaml", "appEnabled: true\ndbEnabled: true\n")
	for name, text := range map[string]string{"1-app": "{description: a, requires: [store, kubernetes]}", "2-db": "{description: d, provides: [store]}"} {
		s.file("modules/"+name+"/Manifest", "")
		s.file("modules/"+name+"/addon.yaml", text)
		s.hook("modules/"+name+"/hooks/h.sh", "onStartup: 1\nafterDeleteHelm: 1", "")
	}
	o := s.start()
	s.traced("2-db/hooks/h.sh onStartup", "1-app/hooks/h.sh onStartup")
	s.idle(o)
	s.config(map[string]any{"dbEnabled": "false"})
	s.traced("1-app/hooks/h.sh afterDeleteHelm", "2-db/hooks/h.sh afterDeleteHelm")
	s.idle(o)
	if text := asJSON(o.Modules()); !strings.Contains(text, `"why":"it requires store, and module db is off"`) {
		s.Error(text)
	}
}

// testLastingFlags: a flag that a hook after all modules writes to the ConfigMap is such a value, too.
func testLastingFlags(s *site) {
	s.hook("global/g.sh", "afterAll: 1", `echo '{"op":"add","path":"/aEnabled","value":true}' > $CONFIG_VALUES_JSON_PATCH_PATH`)
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1", "")
	s.start()
	s.traced("g.sh afterAll", "a/hooks/h.sh beforeHelm", "g.sh afterAll")
}

// testAfterAll: hooks after all modules that change global values make all modules run again. A flag is such a value.
func testAfterAll(s *site) {
	s.hook("global/g.sh", "beforeAll: 1\nafterAll: 1", `grep -q afterAll $BINDING_CONTEXT_PATH || exit 0
echo '[{"op":"add","path":"/aEnabled","value":"True"}]{"op":"add","path":"/global/x","value":{"y":1}}' > $VALUES_JSON_PATCH_PATH`)
	s.hook("modules/a/hooks/h.sh", "afterHelm: 1", printValues("VALUES_PATH", ".global.x"))
	o := s.start()
	s.traced("g.sh beforeAll", "g.sh afterAll", "g.sh beforeAll", "a/hooks/h.sh afterHelm", `  {"y":1}`, "g.sh afterAll")
	s.idle(o)
	s.config(map[string]any{"aEnabled": "false"}) // the administrator wins
	s.traced("g.sh beforeAll", "g.sh afterAll")
}
