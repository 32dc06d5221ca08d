package assemble_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/spec"
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

// TestUtilityImageComesWithAddOnThatNeedsIt uses kURL's own velero, whose list of plug-ins ends with that image.
func TestUtilityImageComesWithAddOnThatNeedsIt(t *testing.T) {
	t.Parallel()
	velero, err := os.ReadFile(filepath.Join(upstreamcases.KurlAddOns(t), "addons/velero/1.18.2/install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	const image = "docker.io/replicated/kurl-util:v2026.08.07-0"
	for name, row := range map[string]struct {
		spec     string
		packages map[string]string // images, by name-version
		want     string            // its version in the Installer of the bundle
		refusal  string
	}{
		"the store's newest":    {"  velero: {version: 1.18.2}\n", map[string]string{"kurl-util-v2026.07.01-0": image, "kurl-util-v2026.08.07-0": image}, "kurl-util:\n    version: v2026.08.07-0\n", ""},
		"one of the Installer":  {"  velero: {version: 1.18.2}\n  kurl-util: {version: v2026.07.01-0}\n", map[string]string{"kurl-util-v2026.07.01-0": image, "kurl-util-v2026.08.07-0": image}, "kurl-util:\n    version: v2026.07.01-0\n", ""},
		"one of another add-on": {"  velero: {version: 1.18.2}\n  tools: {version: '1'}\n", map[string]string{"tools-1": image, "kurl-util-v2026.08.07-0": image}, "", ""},
		"nothing needs it":      {"  base: {version: '1.0'}\n", map[string]string{"kurl-util-v2026.08.07-0": image}, "", ""},
		"the store has none":    {"  velero: {version: 1.18.2}\n", nil, "", "velero needs kURL's image kurl-util, and the store has no package with it: give kURL's bundle or its common.tar.gz to 'sealift import'"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, row.spec)
			dir := t.TempDir()
			publish(t, dir, "base", "1.0", platform, map[string]string{"Manifest": "", "install.sh": ""})
			publish(t, dir, "velero", "1.18.2", platform, map[string]string{"Manifest": "", "install.sh": string(velero)})
			for file, ref := range row.packages {
				at := strings.LastIndex(file[:len(file)-1], "-v")
				if at < 0 {
					at = strings.LastIndex(file, "-")
				}
				publishImage(t, dir, file[:at], file[at+1:], ref)
			}
			if r.Packages.Store, err = store.Open(dir); err != nil {
				t.Fatal(err)
			}
			archive, text := assembledWithText(t, r, row.refusal)
			if archive == nil {
				return
			}
			if !strings.Contains(text, row.want) || row.want == "" && strings.Contains(text, "kurl-util") {
				t.Errorf("%s, want %s", text, row.want)
			}
			inBundle, err := spec.Parse("installer.yaml", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range inBundle.AddOns {
				if _, ok := archive.Package(a.Name, a.Version); !ok {
					t.Errorf("the bundle has no package %s %s", a.Name, a.Version)
				}
			}
			if len(archive.Index.Packages) != len(inBundle.AddOns) {
				t.Errorf("%d packages for %d add-ons", len(archive.Index.Packages), len(inBundle.AddOns))
			}
		})
	}
}

// publishImage puts a package into a folder whose index names one image.
func publishImage(t *testing.T, dir, name, version, ref string) {
	t.Helper()
	p := bundle.Package{Name: name, Version: version, Platforms: []string{platform}, Contents: bundle.Contents{Images: []bundle.Image{{ID: "one", Ref: ref}}}}
	for file, text := range map[string]string{"Manifest": "image one " + ref + "\n", "install.sh": ""} {
		p.Files = append(p.Files, bundle.BytesFile(bundle.AddOnDir(name, version)+"/"+file, 0o644, []byte(text)))
	}
	f, err := os.Create(filepath.Join(dir, name+"-"+version+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// assembledWithText returns the assembled bundle with the text of its Installer, or nil after the refusal that is wanted.
func assembledWithText(t *testing.T, r assemble.Request, refusal string) (archive *bundle.Archive, installer string) {
	t.Helper()
	plan, err := assemble.Prepare(t.Context(), r)
	if refusal != "" {
		if err == nil || !strings.Contains(err.Error(), refusal) {
			t.Errorf("got %v", err)
		}
		return nil, ""
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = plan.Close()
	data := assembled(t, r)
	if archive, err = bundle.NewArchive(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	content, err := archive.ReadFile(bundle.InstallerName, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return archive, string(content)
}

// TestWordsGetTypesOfAddOn assembles with an option that came as a word of a command line.
func TestWordsGetTypesOfAddOn(t *testing.T) {
	for word, refusal := range map[string]string{"user.size=5": "", "user.size=five": "option size must be of type integer"} {
		r := request(t, both)
		var err error
		if r.Installer, _, err = r.Installer.Override(word); err != nil {
			t.Fatal(err)
		}
		if _, text := assembledWithText(t, r, refusal); refusal == "" && !strings.Contains(text, "    size: 5\n") {
			t.Errorf("the bundle's Installer with %s:\n%s", word, text)
		}
	}
}
