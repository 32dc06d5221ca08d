package lifecycle_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/operator/lifecycle"
	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/values"
)

// moduleRow is a sample of modules: which are enabled, what hooks do, and the values.
type moduleRow struct {
	ID, Fixture string
	Given       map[string]any
	Expect      map[string]any
}

func testSampleRows(s *site) {
	var file struct{ Cases []moduleRow }
	s.sample("module_manager.yaml", &file)
	for _, c := range file.Cases {
		s.in(c.ID, func(s *site) {
			s.fixture(&c)
			o := s.start()
			s.idle(o)
			for key, want := range c.Expect {
				s.expect(o, c.Expect, key, want)
			}
		})
	}
	s.Logf("%d of %d rows of module_manager.yaml checked", len(file.Cases), len(file.Cases))
}

// fixture creates the folders and other inputs of a row: the ConfigMap, flags, releases, and patches of values.
func (s *site) fixture(c *moduleRow) {
	s.Helper()
	fixture := upstreamcases.Path(s, "operator/addon-operator/fixtures/"+c.Fixture)
	modules, global := filepath.Join(s.dir, "modules"), filepath.Join(s.dir, "global")
	if err := errors.Join(os.RemoveAll(modules), os.RemoveAll(global), os.CopyFS(s.dir, os.DirFS(fixture))); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "global-hooks"), global); err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(modules, 0o755), os.MkdirAll(global, 0o755)); err != nil {
		s.Fatal(err)
	}
	var configMap struct{ Data map[string]any }
	if data, err := os.ReadFile(filepath.Join(s.dir, "config_map.yaml")); err == nil {
		if err := yaml.Unmarshal(data, &configMap); err != nil {
			s.Fatal(err)
		}
		s.config(configMap.Data)
	}
	for key, value := range c.Given {
		switch lower := strings.ToLower(key); {
		case key == "hook":
		case key == "configMap":
			for key, section := range value.(map[string]any) {
				s.config(map[string]any{key: s.text(section)})
			}
		case strings.Contains(lower, "release"):
			for _, name := range names(value) {
				s.installs(name)
			}
		case strings.Contains(lower, "patch"):
			s.patches(c.Given, value)
		case key == "moduleEnabled":
			for _, name := range s.modules() {
				s.config(map[string]any{values.Key(name) + values.EnabledSuffix: fmt.Sprint(value)})
			}
		default:
			s.Errorf("the sample gives %s, which nothing here does", key)
		}
	}
	s.removed(c)
	s.executable()
}

// removed installs the modules of a row about their removal, and disables them, unless the row does.
func (s *site) removed(c *moduleRow) {
	about := false
	for key, want := range c.Expect {
		about = about || strings.HasPrefix(key, "afterDelete") || key == "helmDeleteExecuted" && want == true
	}
	if !about || len(s.releases.there) > 0 {
		return
	}
	for _, name := range s.modules() {
		s.installs(name)
		if _, said := c.Given["moduleEnabled"]; !said {
			s.config(map[string]any{values.Key(name) + values.EnabledSuffix: "false"})
		}
	}
}

func (s *site) installs(name string) {
	s.releases.there[name] = helm.Record{Revision: 1, Status: "deployed"}
}

// modules are the names of the modules of the fixture.
func (s *site) modules() (all []string) {
	s.Helper()
	found, err := module.Find(filepath.Join(s.dir, "modules"), module.Options{DefaultOrder: module.DefaultOrder})
	if err != nil {
		s.Fatal(err)
	}
	for _, m := range found.Modules {
		all = append(all, m.Name)
	}
	return all
}

// text is a section of the ConfigMap.
func (s *site) text(section any) string {
	if text, ok := section.(string); ok {
		return text
	}
	text, err := yaml.Marshal(section)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// patches lets a hook change values before all others do, as if it had done so earlier.
func (s *site) patches(given map[string]any, value any) {
	text, ok := value.(string)
	if !ok {
		text = asJSON(value)
	}
	path, _ := given["hook"].(string)
	folder := "global"
	if dir, _, found := strings.Cut(path, "/hooks/"); found {
		folder = "modules/" + dir + "/hooks"
	}
	s.hook(folder+"/000-given", "onStartup: 0", "cat > $VALUES_JSON_PATCH_PATH <<'PATCH'\n"+text+"\nPATCH")
}

// expect compares one outcome of a row.
func (s *site) expect(o *lifecycle.Operator, all map[string]any, key string, want any) {
	var found, on, off []string
	for _, m := range o.Modules() {
		if found = append(found, m.Name); m.Enabled {
			on = append(on, m.Name)
		} else {
			off = append(off, m.Name)
		}
	}
	lower := strings.ToLower(key)
	switch {
	case strings.HasPrefix(lower, "note"):
	case key == "modulesFound":
		s.sameNames(key, found, names(want))
	case key == "enabledByConfig" && all["enabled"] != nil: // scripts may have turned some off
		for _, name := range on {
			if !slices.Contains(names(want), name) {
				s.Errorf("%s is on", name)
			}
		}
	case key == "enabledByConfig", key == "enabled":
		s.sameNames(key, on, names(want))
	case key == "notEnabled":
		for _, name := range names(want) {
			if !slices.Contains(off, name) {
				s.Errorf("%s is on, or not there", name)
			}
		}
	case key == "globalValues", key == "moduleValues", key == "values":
		s.expectValues(o, key, want)
	case key == "configMapAfter":
		for section, want := range want.(map[string]any) {
			if diff := cmp.Diff(want, s.live()[section]); diff != "" {
				s.Errorf("the ConfigMap: %s", diff)
			}
		}
	case strings.Contains(lower, "order"):
		s.expectOrder(key, names(want))
	case key == "helmUpgradeExecuted", key == "helmDeleteExecuted":
		verb := map[string]string{"helmUpgradeExecuted": "helm upgrade ", "helmDeleteExecuted": "helm uninstall "}[key]
		if ran := s.count(verb) > 0; ran != want {
			s.Errorf("%s is %v", key, ran)
		}
	case key == "valuesChangedByAfterHelm": // then the module runs again
		if again := s.ranTwice(); again != want {
			s.Errorf("the module ran again: %v; trace %v", again, s.lines())
		}
	case strings.Contains(lower, "purge"), strings.Contains(lower, "unknown"):
		s.sameNames(key, s.uninstalled(func(name string) bool { return !slices.Contains(found, name) }), names(want))
	case strings.Contains(lower, "delete"), strings.Contains(lower, "disable"):
		s.sameNames(key, s.uninstalled(func(name string) bool { return slices.Contains(found, name) }), names(want))
	default:
		s.Errorf("the sample says %s, which nothing here compares", key)
	}
}

// expectValues compares values by module, or by the key of their section, or the global ones.
func (s *site) expectValues(o *lifecycle.Operator, key string, want any) {
	sections := want.(map[string]any)
	if key == "globalValues" {
		sections = map[string]any{values.GlobalKey: want}
	}
	for name, want := range sections {
		for _, m := range o.Modules() {
			if key == "values" && values.Key(m.Name) == name {
				name = m.Name
			}
		}
		if name == values.GlobalKey {
			name = ""
		}
		got, err := o.Values(name, false)
		if name == "" {
			got = without(got, "enabledModules")
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			s.Errorf("values of %q: %v %s", name, err, diff)
		}
	}
}

// expectOrder compares in which order the hooks of a binding ran. A binding that occurs more than once has it each time.
func (s *site) expectOrder(key string, want []string) {
	binding := key[:strings.Index(strings.ToLower(key), "order")]
	for i := range want {
		want[i], _, _ = strings.Cut(want[i], " ") // the number is in parentheses
	}
	var got []string
	upgrades := 0
	for _, line := range s.lines() {
		hook, context, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "helm upgrade "):
			upgrades++
			if binding == "beforeHelm" && len(got) != upgrades*len(want) {
				s.Errorf("Helm ran after %v", got)
			}
		case strings.Contains(context, `"`+binding+`"`):
			if got = append(got, hook); binding == "afterHelm" && len(got) > upgrades*len(want) {
				s.Errorf("%v ran before Helm", got)
			}
		}
	}
	if len(want) == 0 || len(got) == 0 || !slices.Equal(got, slices.Repeat(want, max(1, len(got)/len(want)))) {
		s.Errorf("the hooks of %s ran as %v, not %v", binding, got, want)
	}
}

// ranTwice reports whether hooks and Helm ran twice in the same order, with a hook after Helm at the end.
func (s *site) ranTwice() bool {
	lines := s.lines()
	half := len(lines) / 2
	return s.count("helm upgrade ") == 2 && slices.Equal(lines[:half], lines[half:]) && strings.Contains(lines[half-1], `"afterHelm"`)
}

// count returns the number of lines in the trace with a prefix.
func (s *site) count(prefix string) (n int) {
	for _, line := range s.lines() {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// uninstalled are releases in the order in which they went.
func (s *site) uninstalled(wanted func(name string) bool) (all []string) {
	for _, line := range s.lines() {
		if name, ok := strings.CutPrefix(line, "helm uninstall "); ok && wanted(name) {
			all = append(all, name)
		}
	}
	return all
}

func (s *site) sameNames(what string, got, want []string) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("%s: %v, not %v", what, got, want)
	}
}

// names are those of a list, or the keys of a map.
func names(value any) (all []string) {
	switch value := value.(type) {
	case []any:
		for _, name := range value {
			all = append(all, fmt.Sprint(name))
		}
	case map[string]any:
		for name := range value {
			all = append(all, name)
		}
		slices.Sort(all)
	case string:
		all = []string{value}
	}
	return all
}

// executable sets the mode of hooks and scripts of samples.
func (s *site) executable() {
	s.Helper()
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(data), "#!") {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	if err != nil {
		s.Fatal(err)
	}
}

func without(value any, key string) any {
	if m, ok := value.(map[string]any); ok {
		delete(m, key)
	}
	return value
}

// testSampleOperator compares in which order hooks run until everything has. A row may have tasks besides, which leave no trace.
func testSampleOperator(s *site) {
	var file struct {
		Cases []struct {
			ID, Fixture     string
			Given           map[string]any
			ExpectTaskOrder []struct{ Run, Hook string }
		}
	}
	s.sample("operator.yaml", &file)
	checked := 0
	for _, c := range file.Cases {
		if len(c.ExpectTaskOrder) == 0 {
			s.Logf("%s has no order of tasks", c.ID)
			continue
		}
		checked++
		s.in(c.ID, func(s *site) {
			s.fixture(&moduleRow{Fixture: "operator/" + c.Fixture, Given: c.Given})
			s.idle(s.start())
			rest := s.lines()
			for _, task := range c.ExpectTaskOrder {
				binding := task.Run[strings.LastIndex(task.Run, " ")+1:]
				if task.Hook == "" || !slices.Contains([]string{"onStartup", "beforeAll", "afterAll", "beforeHelm", "afterHelm", "afterDeleteHelm"}, binding) {
					continue
				}
				hook := task.Hook[strings.LastIndex(task.Hook, "/")+1:]
				at := slices.IndexFunc(rest, func(line string) bool {
					return strings.HasPrefix(line, hook) && strings.Contains(line, `"`+binding+`"`)
				})
				if at < 0 {
					s.Fatalf("%s of %s did not run, or before what it comes after: %v", binding, task.Hook, s.lines())
				}
				rest = rest[at+1:]
			}
		})
	}
	s.Logf("%d of %d rows of operator.yaml checked", checked, len(file.Cases))
}

// TestSampledOrdersAreFoundInTrace uses a trace of a module that ran twice, and of releases that were removed.
func TestSampledOrdersAreFoundInTrace(t *testing.T) {
	s := &site{T: t, trace: filepath.Join(t.TempDir(), "trace")}
	ran := "hook-3 [{\"binding\":\"beforeHelm\"}]\nhook-1 [{\"binding\":\"beforeHelm\"}]\nhelm upgrade module\nhook-4 [{\"binding\":\"afterHelm\"}]\n"
	write := func(text string) {
		if err := os.WriteFile(s.trace, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ran + ran)
	s.expectOrder("beforeHelmOrder", []string{"hook-3 (1)", "hook-1 (20)"})
	s.expectOrder("afterHelmOrder", []string{"hook-4"})
	if !s.ranTwice() {
		t.Error("it did not run twice")
	}
	if write(ran); s.ranTwice() {
		t.Error("it ran twice")
	}
	write("helm uninstall two\nhelm uninstall one\n")
	s.sameNames("all", s.uninstalled(func(string) bool { return true }), names([]any{"two", "one"}))
}
