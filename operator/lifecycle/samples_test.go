package lifecycle_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/operator/values"
	"github.com/sealift/sealift/testgrid/cases"
)

// sample reads a file of samples.
func (s *site) sample(name string, into any) {
	s.Helper()
	data, err := os.ReadFile(cases.Path(s, "operator/addon-operator/"+name))
	if err != nil {
		s.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		s.Fatal(err)
	}
}

// testSampleSaves: what a hook saves goes to the section of its module.
func testSampleSaves(s *site) {
	var file struct {
		Save []struct {
			Section    string
			Values     any
			ExpectKeys []string
		}
	}
	s.sample("kube_config.yaml", &file)
	for i, c := range file.Save {
		s.in("save-"+string(rune('a'+i)), func(s *site) {
			s.config(map[string]any{"global": "a: 1\n"})
			hooks, key, binding := "modules/"+c.Section+"/hooks/h.sh", values.Key(c.Section), "onStartup: 1"
			if c.Section == "" || c.Section == values.GlobalKey {
				hooks, key = "global/h.sh", values.GlobalKey
			} else {
				s.file("modules/values.yaml", key+"Enabled: true\n")
			}
			script := ""
			for name, value := range c.Values.(map[string]any) {
				script += `echo '{"op":"add","path":"/` + key + "/" + name + `","value":` + asJSON(value) + "}' >> $CONFIG_VALUES_JSON_PATCH_PATH\n"
			}
			s.hook(hooks, binding, script)
			s.idle(s.start())
			live := s.live()
			for _, want := range c.ExpectKeys {
				if _, ok := live[want]; !ok {
					s.Errorf("the ConfigMap lacks %s: %s", want, asJSON(live))
				}
			}
			section, _ := live[key].(map[string]any)
			for name, value := range c.Values.(map[string]any) {
				if diff := cmp.Diff(value, section[name]); diff != "" {
					s.Errorf("%s.%s: %s", key, name, diff)
				}
			}
		})
	}
	s.Logf("%d rows of save of kube_config.yaml checked", len(file.Save))
}

// testSampleEvents: an edit of the ConfigMap that is wrong starts nothing.
func testSampleEvents(s *site) {
	var file struct {
		Events []struct {
			Before map[string]any
			Patch  struct{ Add map[string]any }
			Expect struct{ Event, Tasks string }
		}
	}
	s.sample("kube_config.yaml", &file)
	for i, c := range file.Events {
		s.in("event-"+string(rune('a'+i)), func(s *site) {
			s.hook("global/g.sh", "beforeAll: 1", "")
			s.config(c.Before)
			o := s.start()
			s.traced("g.sh beforeAll")
			s.idle(o)
			s.config(c.Patch.Add)
			if c.Expect.Event == "invalid" {
				s.until("the edit is refused", func() bool { return strings.Contains(s.log.String(), "the ConfigMap was changed and is wrong") })
			}
			s.idle(o)
			if c.Expect.Tasks == "none" {
				s.traced()
			}
		})
	}
	s.Logf("%d rows of events of kube_config.yaml checked", len(file.Events))
}

// testSampleScenarios runs the examples of the documentation for enabled and for schemas.
func testSampleScenarios(s *site) {
	var file struct {
		Enabled []struct {
			Name      string
			Files     map[string]string
			ConfigMap map[string]any
			Expect    map[string]any
		}
		Validation []struct {
			Name      string
			Schema    any
			ConfigMap map[string]any
			HookPatch string
		}
	}
	s.sample("seed_scenarios.yaml", &file)
	for i, c := range file.Enabled {
		s.in("enabled-"+string(rune('a'+i)), func(s *site) {
			for name, text := range c.Files {
				if filepath.Base(name) == "enabled" { // it also leaves a trace
					first, rest, _ := strings.Cut(text, "\n")
					text = first + "\necho enabled >> $TRACE\n" + rest
				}
				s.file(name, text)
			}
			s.config(c.ConfigMap)
			o := s.start()
			for _, m := range o.Modules() {
				if want, ok := c.Expect[m.Name]; ok && (want == "enabled") != m.Enabled {
					s.Errorf("%s: %s is on: %v, because %s", c.Name, m.Name, m.Enabled, m.Why)
				}
			}
			if want, ok := c.Expect["enabledScriptExecuted"].(bool); ok && want != slices.Contains(s.lines(), "enabled") {
				s.Errorf("%s: the trace is %v", c.Name, s.lines())
			}
		})
	}
	for i, c := range file.Validation {
		s.in("validation-"+string(rune('a'+i)), func(s *site) {
			schema, err := yaml.Marshal(c.Schema)
			if err != nil {
				s.Fatal(err)
			}
			s.file("global/openapi/config-values.yaml", string(schema))
			s.config(c.ConfigMap)
			s.hook("global/g.sh", "beforeAll: 1", "echo '"+c.HookPatch+"' > $CONFIG_VALUES_JSON_PATCH_PATH")
			o := s.run()
			s.until("the hook has failed", func() bool { return strings.Contains(s.log.String(), "failures=1") })
			if o.Ready() || o.Engine().Queues().Lengths()["main"] == 0 {
				s.Errorf("%s: the hook is not tried again", c.Name)
			}
		})
	}
	s.Logf("%d rows of enabled and %d of validation of seed_scenarios.yaml checked", len(file.Enabled), len(file.Validation))
}

// testSampleRows runs the samples of modules: what is on, what hooks do, and what values are.
func testSampleRows(s *site) {
	var file struct {
		Cases []struct {
			ID, Fixture string
			Given       struct {
				Hook      string
				ConfigMap map[string]any
			}
			Expect struct {
				ModulesFound, EnabledByConfig, Enabled, BeforeHelmOrder []string
				NotEnabled                                              any
				GlobalValues                                            any
				ModuleValues, Values, ConfigMapAfter                    map[string]any
				HelmUpgradeExecuted                                     bool
			}
		}
	}
	s.sample("module_manager.yaml", &file)
	for _, c := range file.Cases {
		s.in(c.ID, func(s *site) {
			fixture := cases.Path(s, "operator/addon-operator/fixtures/"+c.Fixture)
			if err := os.RemoveAll(filepath.Join(s.dir, "modules")); err != nil {
				s.Fatal(err)
			}
			if err := os.CopyFS(s.dir, os.DirFS(fixture)); err != nil {
				s.Fatal(err)
			}
			s.executable()
			var configMap struct{ Data map[string]any }
			if data, err := os.ReadFile(filepath.Join(s.dir, "config_map.yaml")); err == nil {
				if err := yaml.Unmarshal(data, &configMap); err != nil {
					s.Fatal(err)
				}
				s.config(configMap.Data)
			}
			for key, section := range c.Given.ConfigMap {
				text, err := yaml.Marshal(section)
				if err != nil {
					s.Fatal(err)
				}
				s.config(map[string]any{key: string(text)})
			}
			o := s.start()
			s.idle(o)
			var found, on []string
			for _, m := range o.Modules() {
				if found = append(found, m.Name); m.Enabled {
					on = append(on, m.Name)
				}
			}
			e := c.Expect
			if e.ModulesFound != nil && !cmp.Equal(found, e.ModulesFound) {
				s.Errorf("found %v", found)
			}
			if want := slices.Concat(e.EnabledByConfig, e.Enabled); want != nil && !cmp.Equal(on, want) {
				s.Errorf("%v are on, not %v", on, want)
			}
			if e.GlobalValues != nil {
				got, err := o.Values("", false)
				if diff := cmp.Diff(e.GlobalValues, without(got, "enabledModules")); diff != "" || err != nil {
					s.Errorf("global values: %v %s", err, diff)
				}
			}
			for name, want := range e.ModuleValues {
				got, err := o.Values(name, false)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					s.Errorf("values of %s: %v %s", name, err, diff)
				}
			}
			for key, want := range e.ConfigMapAfter {
				if diff := cmp.Diff(want, s.live()[key]); diff != "" {
					s.Errorf("the ConfigMap: %s", diff)
				}
			}
			if e.BeforeHelmOrder != nil {
				before := []string{"hook-3 before", "hook-2 before", "hook-1 before", "helm upgrade module", "hook-4 after"}
				var got []string
				for _, line := range s.lines() {
					name, rest, _ := strings.Cut(line, " ")
					switch {
					case name == "helm":
						got = append(got, line)
					case strings.Contains(rest, "beforeHelm"):
						got = append(got, name+" before")
					default:
						got = append(got, name+" after")
					}
				}
				// The hook after Helm has changed values, so the module has run twice.
				if want := slices.Repeat(before, 2); !cmp.Equal(got, want) {
					s.Errorf("trace %v", got)
				}
			}
		})
	}
	s.Logf("%d of %d rows of module_manager.yaml checked", len(file.Cases), len(file.Cases))
}

// executable gives hooks of samples their mode.
func (s *site) executable() {
	s.Helper()
	hooks, err := filepath.Glob(filepath.Join(s.dir, "modules", "*", "hooks", "*"))
	if err != nil {
		s.Fatal(err)
	}
	for _, path := range hooks {
		if err := os.Chmod(path, 0o755); err != nil {
			s.Fatal(err)
		}
	}
}

func without(value any, key string) any {
	if m, ok := value.(map[string]any); ok {
		delete(m, key)
	}
	return value
}

// testSeedSynchronization runs the global hook that the documentation explains synchronization with.
func testSeedSynchronization(s *site) {
	var file struct {
		HookConfigs []struct{ Config string }
	}
	s.sample("seed_scenarios.yaml", &file)
	config := strings.TrimPrefix(file.HookConfigs[0].Config, "configVersion: v1\n")
	s.hook("global/hook.sh", config, `case $(jq -r '.[0].binding' $BINDING_CONTEXT_PATH) in
beforeAll) echo "  $(jq -c '.[0].snapshots | keys' $BINDING_CONTEXT_PATH)" >> $TRACE;;
monitor-cms) until [ -e $TRACE.go ]; do sleep 0.02; done;;
esac`)
	o := s.run()
	s.until("ready, though a parallel run is not over", o.Ready)
	s.touch(".go")
	s.idle(o)
	var got []string
	for _, line := range s.lines() {
		name, objects, _ := strings.Cut(line, ":")
		if _, err := strconv.Atoi(objects); strings.HasPrefix(name, "hook.sh monitor-") && err != nil {
			continue // an event: other tests have objects in this cluster, too
		}
		if name != "hook.sh monitor-cms" {
			got = append(got, name)
		}
	}
	want := []string{"hook.sh monitor-pods", "hook.sh beforeAll", `  ["monitor-cms","monitor-nodes","monitor-pods","monitor-secrets"]`}
	if !cmp.Equal(got, want) {
		s.Errorf("got %v", got)
	}
}
