package lint

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/diag"
	"github.com/sealift/sealift/testgrid/tree"
)

const (
	goodPreflight = "apiVersion: troubleshoot.sh/v1beta2\nkind: HostPreflight\nmetadata: {name: x}\nspec:\n  collectors:\n  - cpu: {}\n  analyzers: []\n"
	goodSupport   = "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nmetadata: {name: x}\nspec:\n  hostCollectors:\n  - cpu: {}\n"
)

// good is an add-on without mistakes.
func good() map[string]string {
	return map[string]string{
		"cert-manager/1.0/Manifest":            "image app example.org/app:1\n",
		"cert-manager/1.0/install.sh":          "cert-manager() { cert_manager_wait; }\ncert_manager_wait() { :; }\ncert-manager_post_init() { :; }\n",
		"cert-manager/1.0/addon.yaml":          "description: Certificates\n",
		"cert-manager/1.0/host-preflight.yaml": goodPreflight,
		"cert-manager/1.0/troubleshoot.yaml":   goodSupport,
		"cert-manager/1.0/pod.yaml":            "apiVersion: v1\nkind: Pod\nmetadata: {name: app}\nspec:\n  containers: [{name: app, image: 'example.org/app:1'}]\n",
	}
}

// inTree writes files and changes into their directory. Empty content means no file.
func inTree(t *testing.T, files map[string]string) {
	t.Helper()
	maps.DeleteFunc(files, func(_, content string) bool { return content == "" })
	t.Chdir(tree.New(t, files))
}

func lintAll(t *testing.T, path string) []string {
	t.Helper()
	dirs, err := Find(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, dir := range dirs {
		findings, err := AddOn(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			lines = append(lines, f.Error())
		}
	}
	return lines
}

func TestAddOn(t *testing.T) {
	const v1, v2, tmpl = "cert-manager/1.0/", "cert-manager/2.0/", "cert-manager/template/"
	linked := map[string]string{
		v2 + "Manifest": "image app example.org/app:2\n", v2 + "install.sh": "-> ../1.0/install.sh", v2 + "addon.yaml": "-> ../1.0/addon.yaml",
		v2 + "host-preflight.yaml": "-> ../1.0/host-preflight.yaml", v2 + "troubleshoot.yaml": "-> ../1.0/troubleshoot.yaml",
		v2 + "pod.yaml":        "apiVersion: v1\nkind: Pod\nmetadata: {name: app}\nspec:\n  containers: [{name: app, image: 'example.org/app:2'}]\n",
		tmpl + "Manifest.tmpl": "image app example.org/app:${TAG}\n",
	}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for name, content := range linked {
			all[name] = content
		}
		for name, content := range more {
			all[name] = content
		}
		return all
	}
	tests := map[string]struct {
		change map[string]string
		want   []string // each part of one finding, in order
	}{
		"nothing is wrong":               {nil, nil},
		"a mistake in the Manifest":      {map[string]string{v1 + "Manifest": "imagee app x\n"}, []string{v1 + "Manifest:1:1: error: "}},
		"an image that is not carried":   {map[string]string{v1 + "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: app}\nspec:\n  containers: [{name: app, image: 'example.org/app:1'}, {name: b, image: 'example.org/b:1'}]\n"}, []string{v1 + "pod.yaml:5:"}},
		"no install.sh":                  {map[string]string{v1 + "install.sh": ""}, []string{v1 + "install.sh: error: the add-on has no install.sh"}},
		"an install.sh that is not bash": {map[string]string{v1 + "install.sh": "cert-manager() {\n  if true; then\n}\n"}, []string{v1 + "install.sh:3:1: error: not bash: "}},
		"a function of another name": {map[string]string{v1 + "install.sh": "cert-manager() { :; }\nwait_for() { :; }\ncert-managers() { :; }\n"},
			[]string{v1 + "install.sh:2:1: error: function wait_for does not begin with the add-on's name (all add-ons share one shell; name it cert_manager_wait_for)", v1 + "install.sh:3:1: error: "}},
		"a function inside a function": {map[string]string{v1 + "install.sh": "cert-manager() {\n    inner() { :; }\n}\n"}, []string{v1 + "install.sh:2:5: error: function inner "}},
		"a hook by a name that is never called": {map[string]string{v1 + "install.sh": "cert-manager() { :; }\ncert_manager_post_init() { :; }\ncert-manager_preinit() { :; }\n"},
			[]string{v1 + "install.sh:2:1: error: hook cert_manager_post_init is never called (name it cert-manager_post_init)", "install.sh:3:1: error: function cert-manager_preinit looks like a hook"}},
		"no hook at all":                   {map[string]string{v1 + "install.sh": "cert_manager_wait() { :; }\n"}, []string{v1 + "install.sh: error: no function is a hook"}},
		"an unknown key in addon.yaml":     {map[string]string{v1 + "addon.yaml": "description: x\nrequire: [a]\n"}, []string{v1 + "addon.yaml:2:1: error: "}},
		"no description":                   {map[string]string{v1 + "addon.yaml": "provides: [x]\n"}, []string{v1 + "addon.yaml: error: description is missing"}},
		"no preflight":                     {map[string]string{v1 + "host-preflight.yaml": ""}, []string{"host-preflight.yaml: error: the add-on has no host-preflight.yaml"}},
		"a preflight of another kind":      {map[string]string{v1 + "host-preflight.yaml": goodSupport}, []string{"host-preflight.yaml:2:7: error: kind is not HostPreflight", "host-preflight.yaml:5:3: error: nothing is collected"}},
		"a preflight of another API":       {map[string]string{v1 + "host-preflight.yaml": strings.Replace(goodPreflight, "troubleshoot.sh/", "example.org/", 1)}, []string{"host-preflight.yaml:1:13: error: apiVersion"}},
		"a preflight that is no YAML":      {map[string]string{v1 + "host-preflight.yaml": "a: [\n"}, []string{"host-preflight.yaml:"}},
		"a collector of two kinds":         {map[string]string{v1 + "host-preflight.yaml": strings.Replace(goodPreflight, "cpu: {}", "cpu: {}\n    memory: {}", 1)}, []string{"host-preflight.yaml:6:5: error: an item of collectors is one kind"}},
		"a preflight with kURL's actions":  {map[string]string{v1 + "host-preflight.yaml": goodPreflight + "{{kurl- if .IsJoin }}\n  # {{kurl .X }}\n{{kurl end }}\n"}, nil},
		"no support bundle":                {map[string]string{v1 + "troubleshoot.yaml": ""}, []string{"troubleshoot.yaml: error: the add-on has no troubleshoot.yaml"}},
		"two versions that share by links": {linked, nil},
		"two versions without a generator": {with(map[string]string{tmpl + "Manifest.tmpl": ""}), []string{v1 + "Manifest: error: nothing writes new versions", v2 + "Manifest: error: nothing writes new versions"}},
		"kURL's generator":                 {with(map[string]string{tmpl + "Manifest.tmpl": "", tmpl + "generate.sh": "exit\n"}), nil},
		"a copy of a file of another version": {with(map[string]string{v2 + "addon.yaml": good()[v1+"addon.yaml"]}),
			[]string{v2 + "addon.yaml: error: is a copy of the one in cert-manager/1.0 (keep it in cert-manager/template"}},
		"a Manifest that the template does not give": {with(map[string]string{v2 + "Manifest": "image app example.org/app:2\napt socat\n"}),
			[]string{v2 + "Manifest:2:1: error: is not what the template gives"}},
		"a Manifest that is a link to elsewhere":    {map[string]string{v1 + "Manifest": "-> /proc/self/environ"}, []string{v1 + "Manifest: error: "}},
		"a support bundle that is a link elsewhere": {map[string]string{v1 + "troubleshoot.yaml": "-> ../../../../etc/passwd"}, []string{v1 + "troubleshoot.yaml: error: "}},
		"an asset that lies elsewhere":              {map[string]string{v1 + "Manifest": "image app example.org/app:1\nasset a ../../../../../x\n"}, []string{v1 + "Manifest:2:9: error: "}},
		"without addon.yaml what is missing is a warning": {map[string]string{v1 + "addon.yaml": "", v1 + "troubleshoot.yaml": "", v1 + "install.sh": "cert-manager() { :; }\nother() { :; }\n"},
			[]string{"addon.yaml: warning: ", "install.sh:2:1: warning: ", "troubleshoot.yaml: warning: "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := good()
			for path, content := range test.change {
				files[path] = content
			}
			inTree(t, files)
			got := lintAll(t, ".")
			if len(got) != len(test.want) {
				t.Fatalf("got %d findings, want %d:\n%s", len(got), len(test.want), strings.Join(got, "\n"))
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got  %s\nwant %s", got[i], want)
				}
			}
		})
	}
	t.Run("inside the directory itself", func(t *testing.T) {
		inTree(t, good())
		t.Chdir("cert-manager/1.0")
		if got := lintAll(t, "."); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// TestTheCatalogue holds what ships against its own rules, warnings included.
func TestTheCatalogue(t *testing.T) {
	if got := lintAll(t, "../../addons"); len(got) != 0 {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

func TestFindNeedsAnAddOn(t *testing.T) {
	if _, err := Find(t.TempDir()); err == nil {
		t.Error("an empty tree is taken for add-ons")
	}
}

// Any text is checked without panic, and what is found has its place in the text.
func FuzzSpec(f *testing.F) {
	f.Add(goodPreflight)
	f.Add("{{kurl if }}\nkind: {{kurl .A }}\nspec: [")
	f.Add("spec: {collectors: {}}")
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, preflightFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := checker{dir: dir}
		if err := c.preflights(); err != nil {
			t.Fatal(err)
		}
		inText(t, c.findings, text)
	})
}

// So are scripts.
func FuzzHooks(f *testing.F) {
	f.Add("demo() { :; }")
	f.Add("function demo_post_init { if; }")
	f.Add("demo-x() (\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, hooksFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := checker{dir: dir, name: "demo"}
		if err := c.hooks(); err != nil {
			t.Fatal(err)
		}
		inText(t, c.findings, text)
	})
}

func inText(t *testing.T, findings []diag.Finding, text string) {
	t.Helper()
	for _, f := range findings {
		if f.Pos.Line > strings.Count(text, "\n")+2 || f.Message == "" {
			t.Errorf("%s, in a text of %d lines", f.Error(), strings.Count(text, "\n")+1)
		}
	}
}
