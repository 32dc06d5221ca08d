package lifecycle_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/values"
)

// sample reads a file of samples.
func (s *site) sample(name string, into any) {
	s.Helper()
	data, err := os.ReadFile(upstreamcases.Path(s, "operator/addon-operator/"+name))
	if err != nil {
		s.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		s.Fatal(err)
	}
}

// testSampleSaves: saved values of a hook go to the section of its module.
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
			saved, _ := c.Values.(map[string]any)
			if section, ok := saved[key].(map[string]any); ok && len(saved) == 1 { // below the key of their section
				saved = section
			}
			script := ""
			for name, value := range saved {
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
			for name, value := range saved {
				if diff := cmp.Diff(value, section[name]); diff != "" {
					s.Errorf("%s.%s: %s", key, name, diff)
				}
			}
		})
	}
	s.Logf("%d rows of save of kube_config.yaml checked", len(file.Save))
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
