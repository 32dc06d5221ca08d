package module_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/values"
)

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(f *module.Found) (all string) {
	for _, m := range f.Modules {
		all += " " + m.Name
	}
	return strings.TrimSpace(all)
}

func TestFind(t *testing.T) {
	first := tree(t, map[string]string{
		"020-b/x": "", "003-c/x": "", "a/x": "", "README.md": "", ".git/x": "",
		"values.yaml": "global: {a: 1, b: 1}\nb: {x: 1}\nbEnabled: true\n", "003-c/values.yaml": "c: {why: 1}\nb: {not: mine}\ncEnabled: false\n",
	})
	second := tree(t, map[string]string{"1-b/x": "", "d-1/x": "", "values.yaml": "global: {b: 2}\ncEnabled: true\nb: {x: 2}\nc: {why: 2}\nd1: {x: 3}\n"})
	if err := os.Symlink("/nowhere", filepath.Join(first, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(second, "1-b"), filepath.Join(first, "002-linked")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	found, err := module.Find(first+":"+second, module.Options{DefaultOrder: 7, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(found); got != "linked c a d-1 b" {
		t.Errorf("found %s", got)
	}
	for _, warned := range []string{"dangling", "module is not registered, because it has a duplicate"} {
		if !strings.Contains(log.String(), warned) {
			t.Errorf("no warning of %s:\n%s", warned, &log)
		}
	}
	if text := fmt.Sprint(found.Common, found.Flags); text != "map[global:map[a:1 b:2]] map[b:true c:true]" {
		t.Errorf("values are %s", text)
	}
	for i, want := range map[int]string{1: "map[c:map[why:1]]", 3: "map[d1:map[x:3]]", 4: "map[b:map[x:1]]"} { // each from its own folder
		if m := found.Modules[i]; fmt.Sprint(m.Values) != want {
			t.Errorf("values of %s are %v", m.Name, m.Values)
		}
	}
	b, c := found.Modules[4], found.Modules[1]
	off, config := false, values.Config{Modules: map[string]values.ModuleConfig{}}
	is := func(m *module.Module, hooks map[string]bool, on bool, by module.Source) {
		t.Helper()
		if gotOn, gotBy := found.Enabled(m, hooks, config); gotOn != on || gotBy != by {
			t.Errorf("%s is %v by %s", m.Name, gotOn, gotBy)
		}
	}
	is(found.Modules[2], nil, false, module.ByDefault)
	is(b, nil, true, module.ByCommon)
	is(c, nil, false, module.ByModule)
	is(c, map[string]bool{"c": true}, true, module.ByHook)
	config.Modules["c"] = values.ModuleConfig{Enabled: &off}
	is(c, map[string]bool{"c": true}, false, module.ByConfig)
	if found.Extenders, err = module.ParseExtenders("KubeConfig, DynamicallyEnabled"); err != nil {
		t.Fatal(err)
	}
	is(c, map[string]bool{"c": true}, true, module.ByHook)
	is(b, nil, false, module.ByDefault) // values.yaml does not count
	for _, text := range []string{"Static,Dynamic", "Static,Static"} {
		if _, err := module.ParseExtenders(text); err == nil {
			t.Errorf("%s is not an error", text)
		}
	}
	if _, err := module.Find(tree(t, map[string]string{"1-a/x": ""}), module.Options{Strict: true}); err == nil || !strings.Contains(err.Error(), "has no values.yaml") {
		t.Errorf("without values.yaml: %v", err)
	}
}

// TestModulesFollowRequiredModules: modules come after those that they require, which others may only provide.
func TestModulesFollowRequiredModules(t *testing.T) {
	addOn := func(text string) map[string]string { return map[string]string{"Manifest": "", "addon.yaml": text} }
	files := map[string]string{"7-plain/addon.yaml": "nothing: of ours\n", "8-last/x": ""}
	for name, text := range map[string]string{
		"1-app": "{description: a, requires: [store, kubernetes], after: [last]}", "2-other": "{description: o, after: [nobody]}", "9-db": "{description: d, provides: [store]}",
	} {
		for file, content := range addOn(text) {
			files[name+"/"+file] = content
		}
	}
	found, err := module.Find(tree(t, files), module.Options{DefaultOrder: module.DefaultOrder})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(found); got != "other plain last db app" {
		t.Errorf("the order is %s", got)
	}
	for want, files := range map[string]map[string]string{
		"in a circle: a requires c, c requires b, b comes after a": {
			"a/Manifest": "", "a/addon.yaml": "{description: a, requires: [c]}", "b/Manifest": "", "b/addon.yaml": "{description: b, after: [a]}",
			"c/Manifest": "", "c/addon.yaml": "{description: c, requires: [b]}",
		},
		"addon.yaml": {"a/Manifest": "", "a/addon.yaml": "{requires: a}"},
	} {
		if _, err := module.Find(tree(t, files), module.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

func TestMistakesNameFileAndKey(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no YAML":                 {map[string]string{"values.yaml": "a: ["}, "/values.yaml: not YAML"},
		"a list":                  {map[string]string{"values.yaml": "[1]"}, "/values.yaml: is not a mapping"},
		"a flag that is text":     {map[string]string{"1-a/values.yaml": "aEnabled: \"true\""}, "/1-a/values.yaml: key aEnabled: must be true or false, not true"},
		"a flag that is a map":    {map[string]string{"1-a/values.yaml": "aEnabled: {}"}, "key aEnabled: must be true or false"},
		"a section that is text":  {map[string]string{"1-a/values.yaml": "a: text"}, "key a: must be a map or a list, not text"},
		"a section that is false": {map[string]string{"1-a/values.yaml": "a: false"}, "key a: must be a map or a list, not a boolean"},
		"two with one key":        {map[string]string{"1-module-1/x": "", "2-module1/x": ""}, "have the same key module1"},
		"a key that is a flag's":  {map[string]string{"1-is-enabled/x": ""}, "1-is-enabled: its values key is the one of a flag"},
		"a flag of maintenance":   {map[string]string{"1-x-maintenance/x": ""}, "its values key is the one of a flag"},
		"the key of globals":      {map[string]string{"001-global/x": ""}, "global: its values key is the one of global values"},
		"the key, no number":      {map[string]string{"global/x": ""}, "global: its values key is the one of global values"},
		"upper case":              {map[string]string{"1-Ingress/x": ""}, `/1-Ingress: "Ingress" is not in kebab case`},
		"camel case":              {map[string]string{"1-certManager/x": ""}, "is not in kebab case"},
		"an underscore":           {map[string]string{"1-cert_manager/x": ""}, "is not in kebab case"},
		"a dot":                   {map[string]string{"cert.manager/x": ""}, "is not in kebab case"},
		"a space":                 {map[string]string{"1-cert manager/x": ""}, "is not in kebab case"},
		"two dashes":              {map[string]string{"1-cert--manager/x": ""}, "is not in kebab case"},
		"a dash at the end":       {map[string]string{"1-cert-/x": ""}, "is not in kebab case"},
		"a dash at the beginning": {map[string]string{"1--cert/x": ""}, "is not in kebab case"},
		"another alphabet":        {map[string]string{"1-мodule/x": ""}, "is not in kebab case"},
		"a number too large":      {map[string]string{"99999999999-a/x": ""}, "the number 99999999999 is too large"},
	} {
		if _, err := module.Find(tree(t, c.files), module.Options{DefaultOrder: module.DefaultOrder}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, empty := range map[string]string{"at the end": "%s:", "at the beginning": ":%s", "in the middle": "%s::%[1]s"} {
		found, err := module.Find(fmt.Sprintf(empty, tree(t, map[string]string{"1-a-b-c/x": "", "2-module-1/x": "", "3-2fa/x": ""})), module.Options{DefaultOrder: module.DefaultOrder})
		if err != nil || names(found) != "a-b-c module-1 2fa" {
			t.Errorf("an empty part %s: %v", name, err)
		}
	}
	if _, err := module.Find("/nowhere", module.Options{DefaultOrder: module.DefaultOrder}); err == nil || err.Error() != "path '/nowhere' does not exist" {
		t.Errorf("%v", err)
	}
}

// TestModuleFileMayHaveChartDefaults: the operator uses the section and the flag of the module, and leaves the rest to Helm.
func TestModuleFileMayHaveChartDefaults(t *testing.T) {
	const own = "replicaCount: 2\nimage: {tag: x}\ndebug: true\nglobal: text\nmetricsEnabled: \"yes\"\na: {x: 1}\naEnabled: true\n"
	found, err := module.Find(tree(t, map[string]string{"1-a/values.yaml": own}), module.Options{DefaultOrder: module.DefaultOrder})
	if err != nil {
		t.Fatal(err)
	}
	if a := found.Modules[0]; a.Enabled == nil || !*a.Enabled || fmt.Sprint(a.Values) != "map[a:map[x:1]]" {
		t.Errorf("values %v, enabled %v", a.Values, a.Enabled)
	}
	if _, err := module.Find(tree(t, map[string]string{"values.yaml": own}), module.Options{}); err == nil || !strings.Contains(err.Error(), "key debug: must be a map or a list") {
		t.Errorf("beside the modules: %v", err)
	}
}

func FuzzValuesFile(f *testing.F) {
	f.Add([]byte("global: {a: 1}\nbEnabled: true\nb: [1]\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, "values.yaml"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := module.Find(dir, module.Options{DefaultOrder: module.DefaultOrder}); err == nil {
			if _, err := json.Marshal(found.Common); err != nil {
				t.Error(err)
			}
		}
	})
}
