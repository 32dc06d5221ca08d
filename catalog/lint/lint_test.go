package lint

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/hooks/kurlbin"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/testing/fixture"
)

const (
	goodPreflight = "apiVersion: troubleshoot.sh/v1beta2\nkind: HostPreflight\nmetadata: {name: x}\nspec:\n  collectors:\n  - cpu: {}\n  analyzers: []\n"
	goodSupport   = "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nmetadata: {name: x}\nspec:\n  hostCollectors:\n  - cpu: {}\n"
)

// secretSupport is a support bundle as kURL's add-ons have it, for Troubleshoot to find in the cluster.
const secretSupport = `apiVersion: v1
kind: Secret
metadata:
  name: x
stringData:
  support-bundle-spec: |
    apiVersion: troubleshoot.sh/v1beta2
    kind: SupportBundle
    metadata: {name: x}
    spec:
      hostCollectors:

      - cpu: {}
`

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
	t.Chdir(fixture.Folder(t, files))
}

func lintAll(t *testing.T, path string) []string {
	t.Helper()
	dirs, err := Find(path)
	if err != nil {
		t.Fatal(err)
	}
	l := linter(t)
	var lines []string
	for _, dir := range dirs {
		findings, err := l.AddOn(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			lines = append(lines, f.Error())
		}
	}
	circle, err := Circle(dirs)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range circle {
		lines = append(lines, f.Error())
	}
	return lines
}

// linter knows what hooks find on a node.
func linter(t *testing.T) *Linter {
	t.Helper()
	functions, err := hook.PreludeFunctions()
	if err != nil {
		t.Fatal(err)
	}
	return New(Core{Functions: functions, Programs: kurlbin.Names()}, nil)
}

func TestLintFindsMistakesOfAddOn(t *testing.T) {
	const v1, v2, tmpl = "cert-manager/1.0/", "cert-manager/2.0/", "cert-manager/template/"
	linked := map[string]string{
		v2 + "Manifest": "image app example.org/app:2\n", v2 + "install.sh": "-> ../1.0/install.sh", v2 + "addon.yaml": "-> ../1.0/addon.yaml",
		v2 + "host-preflight.yaml": "-> ../1.0/host-preflight.yaml", v2 + "troubleshoot.yaml": "-> ../1.0/troubleshoot.yaml",
		v2 + "pod.yaml":        "apiVersion: v1\nkind: Pod\nmetadata: {name: app}\nspec:\n  containers: [{name: app, image: 'example.org/app:2'}]\n",
		tmpl + "Manifest.tmpl": "image app example.org/app:${TAG}\n",
	}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		maps.Copy(all, linked)
		maps.Copy(all, more)
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
		"two add-ons that wait for each other": {map[string]string{v1 + "addon.yaml": "description: x\nrequires: [disk]\n",
			"other/1.0/Manifest": "# nothing\n", "other/1.0/install.sh": "other() { :; }\n", "other/1.0/addon.yaml": "description: y\nprovides: [disk]\nafter: [cert-manager]\n",
			"other/1.0/host-preflight.yaml": goodPreflight, "other/1.0/troubleshoot.yaml": goodSupport},
			[]string{v1 + "addon.yaml: error: add-ons wait for each other in a circle: cert-manager requires disk (provided by other), other comes after cert-manager"}},
		"a function of another name": {map[string]string{v1 + "install.sh": "cert-manager() { :; }\nwait_for() { :; }\ncert-managers() { :; }\n"},
			[]string{v1 + "install.sh:2:1: error: function wait_for does not begin with the add-on's name (all add-ons share one shell; name it cert_manager_wait_for)", v1 + "install.sh:3:1: error: "}},
		"a function inside a function": {map[string]string{v1 + "install.sh": "cert-manager() {\n    inner() { :; }\n}\n"}, []string{v1 + "install.sh:2:5: error: function inner "}},
		"a hook by a name that is never called": {map[string]string{v1 + "install.sh": "cert-manager() { :; }\ncert_manager_post_init() { :; }\ncert-manager_preinit() { :; }\n"},
			[]string{v1 + "install.sh:2:1: error: hook cert_manager_post_init is never called (name it cert-manager_post_init)", "install.sh:3:1: error: function cert-manager_preinit looks like a hook"}},
		"no hook at all":               {map[string]string{v1 + "install.sh": "cert_manager_wait() { :; }\n"}, []string{v1 + "install.sh: error: no function is a hook"}},
		"an unknown key in addon.yaml": {map[string]string{v1 + "addon.yaml": "description: x\nrequire: [a]\n"}, []string{v1 + "addon.yaml:2:1: error: "}},
		"a module without a kebab name": {map[string]string{"my_app/1.0/Manifest": "# nothing\n", "my_app/1.0/install.sh": "my_app() { :; }\n", "my_app/1.0/addon.yaml": "description: y\n",
			"my_app/1.0/enabled": "#!/bin/bash\n", "my_app/1.0/host-preflight.yaml": goodPreflight, "my_app/1.0/troubleshoot.yaml": goodSupport},
			[]string{"my_app/1.0/addon.yaml: error: the operator would not start with this module: \"my_app\" is not in kebab case; use lower-case letters and digits, and single dashes between them, such as cert-manager"}},
		"no description":                   {map[string]string{v1 + "addon.yaml": "provides: [x]\n"}, []string{v1 + "addon.yaml: error: description is missing"}},
		"no preflight":                     {map[string]string{v1 + "host-preflight.yaml": ""}, []string{"host-preflight.yaml: error: the add-on has no host-preflight.yaml"}},
		"a preflight of another kind":      {map[string]string{v1 + "host-preflight.yaml": goodSupport}, []string{"host-preflight.yaml:2:7: error: kind is not HostPreflight", "host-preflight.yaml:5:3: error: nothing is collected"}},
		"a preflight of another API":       {map[string]string{v1 + "host-preflight.yaml": strings.Replace(goodPreflight, "troubleshoot.sh/", "example.org/", 1)}, []string{"host-preflight.yaml:1:13: error: apiVersion"}},
		"a preflight that is not YAML":     {map[string]string{v1 + "host-preflight.yaml": "a: [\n"}, []string{"host-preflight.yaml:"}},
		"a collector of two kinds":         {map[string]string{v1 + "host-preflight.yaml": strings.Replace(goodPreflight, "cpu: {}", "cpu: {}\n    memory: {}", 1)}, []string{"host-preflight.yaml:6:5: error: an item of collectors is one kind"}},
		"a preflight with kURL's actions":  {map[string]string{v1 + "host-preflight.yaml": goodPreflight + "{{kurl- if .IsJoin }}\n  # {{kurl .X }}\n{{kurl end }}\n"}, nil},
		"no support bundle":                {map[string]string{v1 + "troubleshoot.yaml": ""}, []string{"troubleshoot.yaml: error: the add-on has no troubleshoot.yaml"}},
		"two versions that share by links": {linked, nil},
		"two versions without a generator": {with(map[string]string{tmpl + "Manifest.tmpl": ""}), []string{v1 + "Manifest: error: nothing writes new versions", v2 + "Manifest: error: nothing writes new versions"}},
		"kURL's generator":                 {with(map[string]string{tmpl + "Manifest.tmpl": "", tmpl + "generate.sh": "exit\n"}), nil},
		"a copy of a file of another version": {with(map[string]string{v2 + "addon.yaml": good()[v1+"addon.yaml"]}),
			[]string{v2 + "addon.yaml: error: is a copy of the one in cert-manager/1.0 (keep it in cert-manager/template"}},
		"a Manifest that the template does not give": {with(map[string]string{v2 + "Manifest": "image app example.org/app:2\napt socat\n"}),
			[]string{v2 + "Manifest:2:1: error: differs from the template's output"}},
		"a Manifest that is a link to elsewhere":    {map[string]string{v1 + "Manifest": "-> /proc/self/environ"}, []string{v1 + "Manifest: error: "}},
		"a support bundle that is a link elsewhere": {map[string]string{v1 + "troubleshoot.yaml": "-> ../../../../etc/passwd"}, []string{v1 + "troubleshoot.yaml: error: "}},
		"an asset that lies elsewhere":              {map[string]string{v1 + "Manifest": "image app example.org/app:1\nasset a ../../../../../x\n"}, []string{v1 + "Manifest:2:9: error: "}},
		"without addon.yaml what is missing is a warning": {map[string]string{v1 + "addon.yaml": "", v1 + "troubleshoot.yaml": "", v1 + "install.sh": "cert-manager() { :; }\nother() { :; }\n"},
			[]string{"addon.yaml: warning: ", "install.sh:2:1: warning: "}},
		"a support bundle in a Secret": {map[string]string{v1 + "troubleshoot.yaml": secretSupport}, nil},
		"a mistake in a support bundle in a Secret": {map[string]string{v1 + "troubleshoot.yaml": strings.Replace(secretSupport, "- cpu: {}", "- cpu", 1)},
			[]string{"troubleshoot.yaml:13:9: error: an item of hostCollectors is one kind"}},
		"a kubeadm patch that is raised": {map[string]string{v1 + "patch.yaml": "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\nmetadata: {name: x}\nnetworking:\n  podSubnet: $POD_CIDR\n"}, nil},
		"a kubeadm patch that cannot be raised": {map[string]string{v1 + "patch.yml": "---\napiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterStatus\n"},
			[]string{v1 + "patch.yml:2:1: error: cannot be raised to kubeadm.k8s.io/v1beta4: "}},
		"a kubeadm patch that is too old": {map[string]string{v1 + "patch.yaml": "apiVersion: kubeadm.k8s.io/v1alpha3\nkind: InitConfiguration\n"},
			[]string{v1 + "patch.yaml:1:1: error: kubeadm.k8s.io/v1alpha3 is not raised"}},
		"an argument that the kubelet no longer has": {map[string]string{v1 + "patch.yaml": "apiVersion: kubeadm.k8s.io/v1beta2\nkind: JoinConfiguration\nnodeRegistration:\n  kubeletExtraArgs: {container-runtime: remote}\n"},
			[]string{v1 + "patch.yaml:1:1: error: nodeRegistration.kubeletExtraArgs.container-runtime of JoinConfiguration"}},
		"programs that nothing brings": {map[string]string{v1 + "install.sh": "cert-manager() {\n  spinner_until 300 curl -s x\n  find . | xargs -I {} rsync {}\n  timeout -k 1 30s jq . | openssl x\n  echo $(which x) | curl\n}\n"},
			[]string{"install.sh:2:3: error: nothing brings the program curl", "install.sh:3:12: error: nothing brings the program rsync", "install.sh:4:3: error: nothing brings the program jq", "install.sh:4:27: error: nothing brings the program openssl", "install.sh:5:10: error: nothing brings the program which"}},
		"programs that the Manifest brings": {map[string]string{v1 + "Manifest": "image app example.org/app:1\napt curl\nyum curl\napt nfs-common\nasset velero.tar.gz https://example.org/velero.tar.gz\n",
			v1 + "install.sh": "cert-manager() {\n  curl x\n  mount.nfs\n  velero install\n  [ -f \"$src/assets/velero.tar.gz\" ] || kubectl get pods\n  if [ ! -f \"$src/assets/velero.tar.gz\" ]; then wget x; fi\n}\n"}, nil},
		"programs that are looked for":                      {map[string]string{v1 + "install.sh": "cert-manager() { if commandExists jq; then jq; fi; command -v lspci >/dev/null && lspci; }\n"}, nil},
		"programs that no hook reaches":                     {map[string]string{v1 + "install.sh": "cert-manager() { :; }\ncert_manager_never() { curl; }\n"}, nil},
		"programs in an argument":                           {map[string]string{v1 + "install.sh": "cert-manager() { spinner_until 1 cert_manager_up; }\ncert_manager_up() {\n  curl\n}\n"}, []string{"install.sh:3:3: error: nothing brings the program curl"}},
		"a function that is nowhere":                        {map[string]string{v1 + "install.sh": "cert-manager() { kubernetes_resource_exists a b c && rook_create_bucket; }\n"}, []string{"install.sh:1:54: error: no function or program is named rook_create_bucket"}},
		"a program that $DIR/bin has not":                   {map[string]string{v1 + "install.sh": "cert-manager() { \"$DIR\"/bin/kurl x; \"$DIR/bin/helm\" y; }\n"}, []string{"install.sh:1:37: error: $DIR/bin has no program helm (there are: bcrypt, htpasswd, kurl,"}},
		"a function that is called by a name like a hook's": {map[string]string{v1 + "install.sh": "cert-manager() { cert_manager_host_init; }\ncert_manager_host_init() { :; }\n"}, nil},
		"images that somebody else names": {map[string]string{v1 + "install.sh": "cert-manager() {\n  velero install --plugins \"example.org/app:1,${UTIL_IMAGE}\"\n  kubectl run --image \"$OTHER\" \"--rsync-image=$OTHER\"\n  local OWN\n  OWN=$(date)\n  kubectl run --image=$OWN\n}\n", v1 + "Manifest": "image app example.org/app:1\nasset velero.tar.gz https://example.org/velero.tar.gz\n"},
			[]string{"install.sh:2:28: warning: one of several images is $UTIL_IMAGE, which the add-on does not set", "install.sh:3:23: warning: option --image is $OTHER,"}},
		"images in hooks": {map[string]string{v1 + "install.sh": "APP_IMAGE=example.org/app:1\nOTHER_IMAGE=example.org/other:2\ncert-manager() {\n  kubectl run --image=\"$APP_IMAGE\" --image example.org/third:3\n  kubectl apply -f - <<EOF\napiVersion: v1\nkind: Pod\nmetadata: {name: $1}\nspec: {containers: [{name: a, image: 'example.org/fourth:$CERT_MANAGER_VERSION'}]}\nEOF\n  local plugins=\"example.org/app:7,$1\"\n  sed -i \"s/x/sandbox_image = \\\"example.org\\/x\\\"/\"\n  echo \"sandbox = 'example.org/pause:3.1'\"\n  [ \"$x\" = example.org/app:0.9 ]\n}\n"},
			[]string{"install.sh:2:13: warning: variable OTHER_IMAGE: example.org/other:2 looks like an image", "install.sh:4:44: warning: option --image: example.org/third:3",
				"install.sh:6:1: warning: Pod $1, container a: example.org/fourth:1.0", "install.sh:11:17: warning: a word of a hook: example.org/app:7", "install.sh:13:8: warning: containerd's sandbox image: example.org/pause:3.1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := good()
			maps.Copy(files, test.change)
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

// TestCatalogueHasNoFindings holds what ships against its own rules, warnings included.
func TestCatalogueHasNoFindings(t *testing.T) {
	if got := lintAll(t, "../../addons"); len(got) != 0 {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

func TestFindNeedsAddOn(t *testing.T) {
	if _, err := Find(t.TempDir()); err == nil {
		t.Error("an empty tree is taken for add-ons")
	}
}

// Any text is checked without panic, and each finding has its position in the text.
func FuzzSpec(f *testing.F) {
	f.Add(goodPreflight)
	f.Add("{{kurl if }}\nkind: {{kurl .A }}\nspec: [")
	f.Add("spec: {collectors: {}}")
	f.Add("\r\r\u2028\u0085\rtext")
	dir := f.TempDir() // each process that fuzzes has one, and runs one text after the other
	f.Fuzz(func(t *testing.T, text string) {
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
	dir := f.TempDir() // each process that fuzzes has one, and runs one text after the other
	linter := New(Core{}, nil)
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(dir, script.Name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := checker{Linter: linter, dir: dir, name: "demo"}
		if err := errors.Join(c.readHooks(), c.hooks()); err != nil {
			t.Fatal(err)
		}
		inText(t, c.findings, text)
	})
}

// lineBreak matches the line ends of YAML 1.1 (section 4.2).
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

func inText(t *testing.T, findings []diag.Finding, text string) {
	t.Helper()
	lines := len(lineBreak.FindAllString(text, -1)) + 1
	for _, f := range findings {
		if f.Pos.Line > lines+1 || f.Message == "" {
			t.Errorf("%s, in a text of %d lines", f.Error(), lines)
		}
	}
}

func TestLintRefusesCRLFInScripts(t *testing.T) {
	files := good()
	files["cert-manager/1.0/install.sh"] = strings.ReplaceAll("cert-manager() { cert_manager_wait; }\ncert_manager_wait() { :; }\n", "\n", "\r\n")
	files["cert-manager/1.0/lib/wait.sh"] = "wait() {\n    sleep 1\r\n}\n"
	files["cert-manager/1.0/hooks/010-hook"] = "#!/bin/bash\r\ntrue\r\n"
	files["cert-manager/1.0/addon.yaml"] = "description: Certificates\r\n"
	files["cert-manager/1.0/Manifest"] = "image app example.org/app:1\r\n"
	inTree(t, files)
	var got []string
	for _, line := range lintAll(t, ".") {
		if strings.Contains(line, "carriage return") {
			got = append(got, line)
		}
	}
	want := []string{
		"cert-manager/1.0/hooks/010-hook:1:12: error: ", "cert-manager/1.0/install.sh:1:38: error: ", "cert-manager/1.0/lib/wait.sh:2:12: error: ",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for n := range want {
		if !strings.HasPrefix(got[n], want[n]) || !strings.Contains(got[n], "sed -i") {
			t.Errorf("got %s, want %s", got[n], want[n])
		}
	}
}
