package assemble_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/store"
)

func TestOperatorComesWithModules(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spec      string
		operators []string // in the store
		want      string   // in the Installer of the bundle
		refusal   string
	}{
		"the store's newest":     {"  web: {version: '1'}\n", []string{"0.1.0", "0.2.0"}, "operator:\n    version: 0.2.0\n", ""},
		"one of the Installer":   {"  web: {version: '1'}\n  operator: {version: 0.1.0}\n", []string{"0.1.0", "0.2.0"}, "operator:\n    version: 0.1.0\n", ""},
		"another add-on is one":  {"  web: {version: '1'}\n  own: {version: '1'}\n", []string{"0.1.0"}, "", ""},
		"nothing is a module":    {"  plain: {version: '1'}\n", []string{"0.1.0"}, "", ""},
		"the store has none":     {"  web: {version: '1'}\n  shell: {version: '1'}\n", nil, "", "web, shell: modules need an operator, and the store has no package operator: build and publish the add-on addons/operator"},
		"hooks alone are enough": {"  shell: {version: '1'}\n", []string{"0.1.0"}, "operator:\n    version: 0.1.0\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, row.spec)
			dir := t.TempDir()
			publish(t, dir, "web", "1", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "description: x\n", "templates/a.yaml": ""})
			publish(t, dir, "shell", "1", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "description: x\n", "hooks/a.sh": ""})
			publish(t, dir, "plain", "1", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "description: x\n", "yaml/hooks/a.sh": ""})
			for _, version := range row.operators {
				publish(t, dir, "operator", version, platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "provides: [module-operator]\n"})
			}
			publish(t, dir, "own", "1", platform, map[string]string{"Manifest": "", "install.sh": "", "addon.yaml": "provides: [module-operator]\n"})
			var err error
			if r.Packages.Store, err = store.Open(dir); err != nil {
				t.Fatal(err)
			}
			archive, text := assembledWithText(t, r, row.refusal)
			if archive == nil {
				return
			}
			if !strings.Contains(text, row.want) || row.want == "" && strings.Contains(text, "operator") {
				t.Errorf("%s, want %s", text, row.want)
			}
		})
	}
}
