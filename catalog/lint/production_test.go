package lint

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/testgrid/gridspec"
)

// goodTests cover an add-on with one version and no hook for hosts that join.
const goodTests = "- installerSpec: {certManager: {version: __testver__}}\n  airgap: true\n  postInstallScript: kubectl get pods\n"

// readTests reads tests as 'sealift addon lint' does.
func readTests(file, version string) (tests []GridTest, err error) {
	read, err := gridspec.Load(file, gridspec.Values{Version: version})
	if err != nil {
		return nil, err
	}
	for _, t := range read.Tests {
		tests = append(tests, GridTest{Install: t.Install, Upgrade: t.Upgrade, Airgap: t.Airgap, Nodes: t.Nodes(), Checks: len(t.Expect) > 0 || t.PostInstall != ""})
	}
	return tests, nil
}

// forProduction lints a tree for production, and returns the findings without the path of the add-on.
func forProduction(t *testing.T, path string) (lines []string) {
	t.Helper()
	dirs, err := Find(path)
	if err != nil {
		t.Fatal(err)
	}
	l := linter(t).ForProduction(readTests)
	for _, dir := range dirs {
		findings, err := l.AddOn(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			lines = append(lines, strings.TrimPrefix(f.Error(), filepath.Dir(filepath.Dir(dir))+"/"))
		}
	}
	return lines
}

func TestProductionRequiresAutomaticMerges(t *testing.T) {
	const addOn, template = "cert-manager/1.0/", "cert-manager/template/"
	base := func() map[string]string {
		files := good()
		files[template+"Manifest.tmpl"] = "image app example.org/app:${APP}\n"
		files[addOn+"testgrid.yaml"] = goodTests
		return files
	}
	second := map[string]string{}
	for name, content := range good() {
		if strings.HasSuffix(name, "/Manifest") { // the others would be copies, another finding
			second[strings.Replace(name, "/1.0/", "/2.0/", 1)] = content
		}
	}
	for behaviour, row := range map[string]struct {
		change map[string]string
		want   string // "" for no finding
	}{
		"all is there":                        {nil, ""},
		"no generator":                        {map[string]string{template + "Manifest.tmpl": ""}, "1.0/Manifest: error: nothing writes new versions"},
		"a script generates":                  {map[string]string{template + "Manifest.tmpl": "", template + "generate.sh": "#!/bin/bash\n"}, ""},
		"a parameter without an upstream":     {nil, "1.0/addon.yaml: warning: nothing says where newer values of APP come from (add a rule under upstream; docs/addons.md has them)"},
		"an upstream without a parameter":     {map[string]string{addOn + "addon.yaml": good()[addOn+"addon.yaml"] + "upstream: {APPP: {github: a/b}}\n"}, `1.0/addon.yaml: error: upstream names APPP, and the template has no such parameter (did you mean "APP"?)`},
		"no tests":                            {map[string]string{addOn + "testgrid.yaml": ""}, "1.0/testgrid.yaml: error: the add-on has no testgrid.yaml"},
		"kURL's place for tests":              {map[string]string{addOn + "testgrid.yaml": "", template + "testgrid/k8s.yaml": goodTests}, ""},
		"a mistake in the tests":              {map[string]string{addOn + "testgrid.yaml": goodTests + "  airgab: true\n"}, `1.0/testgrid.yaml:4:3: error: unknown key "airgab"`},
		"tests of another add-on":             {map[string]string{addOn + "testgrid.yaml": strings.Replace(goodTests, "certManager", "flannel", 1)}, "no test of the add-on installs the add-on (cert-manager: {version: __testver__}); none runs without a network"},
		"no test without a network":           {map[string]string{addOn + "testgrid.yaml": strings.Replace(goodTests, "  airgap: true\n", "", 1)}, "no test of the add-on runs without a network"},
		"nothing is looked at":                {map[string]string{addOn + "testgrid.yaml": strings.Replace(goodTests, "  postInstallScript: kubectl get pods\n", "", 1)}, "looks at what it has installed"},
		"a hook for joins without a join":     {map[string]string{addOn + "install.sh": "cert-manager() { :; }\ncert-manager_join() { :; }\n"}, "has a host that joins"},
		"a hook for joins with a join":        {map[string]string{addOn + "install.sh": "cert-manager() { :; }\ncert-manager_join() { :; }\n", addOn + "testgrid.yaml": goodTests + "  numSecondaryNodes: 1\n"}, ""},
		"two versions without an upgrade":     {second, "1.0/testgrid.yaml: error: no test of the add-on upgrades the add-on"},
		"without addon.yaml, no host checks":  {map[string]string{addOn + "addon.yaml": "", addOn + "host-preflight.yaml": ""}, "1.0/host-preflight.yaml: error: the add-on has no host-preflight.yaml"},
		"without addon.yaml, no bundle":       {map[string]string{addOn + "addon.yaml": "", addOn + "troubleshoot.yaml": ""}, "1.0/troubleshoot.yaml: error: the add-on has no troubleshoot.yaml"},
		"without addon.yaml, another's names": {map[string]string{addOn + "addon.yaml": "", addOn + "install.sh": "cert-manager() { wait_for_it; }\nwait_for_it() { :; }\n"}, "error: function wait_for_it does not begin with the add-on's name"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			files := base()
			maps.Copy(files, row.change)
			inTree(t, files)
			found := strings.Join(forProduction(t, "."), "\n")
			if row.want == "" && strings.Contains(found, "error") || !strings.Contains(found, row.want) {
				t.Errorf("want %q in\n%s", row.want, found)
			}
		})
	}
}

// TestCatalogueIsReadyForProduction lints the add-ons that ship.
func TestCatalogueIsReadyForProduction(t *testing.T) {
	t.Chdir("../..")
	if found := forProduction(t, "addons"); len(found) > 0 {
		t.Errorf("%s", strings.Join(found, "\n"))
	}
}

// TestKurlAddOnsAreCheckedForProduction lints kURL's own eleven add-ons. Of the samples, only containerd has a template.
func TestKurlAddOnsAreCheckedForProduction(t *testing.T) {
	t.Chdir(upstreamcases.KurlAddOns(t))
	found := strings.Join(forProduction(t, "addons"), "\n")
	for _, lacks := range []string{"the add-on has no testgrid.yaml", "nothing writes new versions"} {
		if n := strings.Count(found, "error: "+lacks); n != 10 || strings.Contains(found, "containerd/2.2.6/testgrid.yaml") {
			t.Errorf("%d times %q, want 10 and none for containerd:\n%s", n, lacks, found)
		}
	}
}
