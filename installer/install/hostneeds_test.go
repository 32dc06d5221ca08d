package install

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/spec"
)

// catalogueNeeds opens the newest version of an add-on of the catalogue as a package, without what a build would fetch, and returns what it
// needs of nodes.
func catalogueNeeds(t *testing.T, name string) []string {
	t.Helper()
	versions, err := filepath.Glob("../../addons/" + name + "/[0-9]*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("%s: %v, %v", name, versions, err)
	}
	dir := slices.MaxFunc(versions, func(a, b string) int { return catalog.CompareVersions(filepath.Base(a), filepath.Base(b)) })
	files := map[string]string{}
	add := func(below, at string) error {
		return filepath.WalkDir(at, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			files[below+strings.TrimPrefix(file, at)] = string(text)
			return err
		})
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		at, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err == nil {
			err = add(e.Name(), at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return needsOf(t, name, filepath.Base(dir), files)
}

func needsOf(t *testing.T, name, version string, files map[string]string) []string {
	t.Helper()
	p := bundle.Package{Name: name, Version: version, Platforms: []string{"linux/amd64"}}
	for file, text := range files {
		p.Files = append(p.Files, bundle.BytesFile(bundle.AddOnDir(name, version)+"/"+file, 0o644, []byte(text)))
	}
	var out bytes.Buffer
	if _, err := bundle.WritePackage(t.Context(), &out, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "package.tar.gz")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadContents(Options{Bundle: file})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one, err := readAddOn(c.archive, &spec.AddOn{Name: name, Key: name, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	templates, err := c.templates(one)
	if err != nil {
		t.Fatal(err)
	}
	return one.hostNeeds(c.nodeVariables(), templates)
}

// TestCatalogueSaysWhatNeedsNodes has every add-on of the catalogue: nothing for those that any cluster can have, and a word of the reasons
// of the others.
func TestCatalogueSaysWhatNeedsNodes(t *testing.T) {
	want := map[string]string{
		"cert-manager": "", "descheduler": "", "gatekeeper": "", "kube-network-policies": "", "local-path-provisioner": "", "metallb": "",
		"metrics-server": "", "traefik": "", "volume-snapshots": "",
		"containerd": "the hook containerd_install", "flannel": "the variable KUBERNETES_API_ENDPOINT of a node", "kubernetes": "the hook kubernetes_host",
		"node-local-dns": "kubectl (install.sh:", "object-store": "the hook object-store_post_init", "operator": "sealift_modules", "prometheus": "sealift_certificate",
		"registry": "the path /etc/containerd/certs.d", "velero": "addon_fetch",
	}
	folders, err := os.ReadDir("../../addons")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		reason, known := want[folder.Name()]
		needs := catalogueNeeds(t, folder.Name())
		switch {
		case !known:
			t.Errorf("%s is not in the table; it needs %q", folder.Name(), needs)
		case reason == "" && len(needs) > 0, reason != "" && !strings.Contains(strings.Join(needs, "\n"), reason):
			t.Errorf("%s: %q, want %q", folder.Name(), needs, reason)
		}
	}
}

// TestHooksThatNeedNodesAreFound has scripts that would do something else than to render.
func TestHooksThatNeedNodesAreFound(t *testing.T) {
	for script, want := range map[string]string{
		`app() { sealift_apply app "$DIR/x"; }`:                                        "",
		`app() { cp "$DIR/a" "$DIR/b" 2>/dev/null; head -c 3 /dev/urandom | base64; }`: "",
		`app() { [[ $X == /etc/* ]] || bail "no"; }`:                                   "",
		`app() { :; }; other() { kubectl get nodes; }`:                                 "",
		`app() { inner; }; inner() { kubectl get nodes; }`:                             "kubectl (install.sh:1)",
		`app() { local x; x=$(kubectl get nodes); }`:                                   "kubectl (install.sh:1)",
		`app() { cat <(kubectl get nodes); }`:                                          "kubectl (install.sh:1)",
		`app() { commandExists kubectl && kubectl get nodes; }`:                        "kubectl (install.sh:1)",
		`app() { "$X" now; }`:                                                          "$X (install.sh:1)",
		`app() { eval "$X"; }`:                                                         "eval (install.sh:1)",
		`app() { /usr/bin/true; }`:                                                     "/usr/bin/true (install.sh:1); the path /usr/bin/true of a host (install.sh:1)",
		`app() { "$DIR/bin/htpasswd" x; }`:                                             "the program htpasswd of a node (install.sh:1)",
		`app() { echo x >/etc/x; }`:                                                    "the path /etc/x of a host (install.sh:1)",
		`app() { local f=/opt/x; cp "$DIR/a" "$f"; }`:                                  "the path /opt/x of a host (install.sh:1)",
		`app() { [[ -e /proc/self && $X == a ]]; }`:                                    "the path /proc/self of a host (install.sh:1)",
		`app() { printf %s "$PRIVATE_ADDRESS"; }`:                                      "the variable PRIVATE_ADDRESS of a node (install.sh:1)",
		`app() { local PRIVATE_ADDRESS=x; printf %s "$PRIVATE_ADDRESS"; }`:             "",
		`app() { printf %s "${APP_COLOUR:-}${OBJECT_STORE_VERSION:-}$APP_VERSION"; }`:  "",
		`app_preflights() { systemctl start x; }; app() { :; }`:                        "systemctl (install.sh:1)",
		`systemctl start x; app() { :; }`:                                              "systemctl (install.sh:1)",
		`app() { sealift_certificate a b c d; }`:                                       "sealift_certificate (install.sh:1)",
		`app_join() { :; }; app() { :; }`:                                              "the hook app_join, which runs on nodes",
		`app_outro() { :; }; app() { :; }`:                                             "the hook app_outro, which runs on nodes",
		`other() { :; }`:                                                               "the function app in its install.sh, which applies its objects: it has none",
	} {
		needs := needsOf(t, "app", "1", map[string]string{"Manifest": "", "addon.yaml": "description: x\n", "install.sh": script})
		if got := strings.Join(needs, "; "); got != want {
			t.Errorf("%s\nneeds %q, want %q", script, got, want)
		}
	}
	template := map[string]string{"Manifest": "", "addon.yaml": "description: x\n", "install.sh": "app() { :; }\n", "yaml/a.tmpl.yaml": "a: ${PRIVATE_ADDRESS}\n"}
	if got := needsOf(t, "app", "1", template); len(got) != 1 || got[0] != "the variable PRIVATE_ADDRESS of a node, in a template" {
		t.Errorf("%q", got)
	}
}
