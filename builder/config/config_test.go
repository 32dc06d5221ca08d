package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

func parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("sealift.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const whole = `mirrors:
  registry.k8s.io: 127.0.0.1:5000/registry.k8s.io
  https://dl.k8s.io/: http://127.0.0.1:5080/dl.k8s.io/
targets:
  debian-12:
    directives: [apt, apt24]
    base: [apt]
    sources:
    - url: http://archive.example/debian
      suites: [bookworm]
      components: [main, contrib]
      signedBy: /keys/example.gpg
  ubuntu-24.04:
    sources:
    - url: http://archive.example/ubuntu
      suites: [noble]
      components: [main]
      signedBy: /keys/ubuntu.gpg
`

func TestBuiltinTargetsAreDebian(t *testing.T) {
	for name, codename := range map[string]string{"debian-12": "bookworm", "debian-13": "trixie"} {
		target, err := config.Default().Target(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Check(); err != nil {
			t.Error(err)
		}
		if !target.Reaches("apt") || target.Reaches("apt24") || target.Reaches("yum") {
			t.Errorf("%s is reached by %v, want apt alone", name, target.Directives)
		}
		var suites []string
		for _, source := range target.Sources {
			suites = append(suites, source.Suites...)
		}
		if want := []string{codename, codename + "-updates", codename + "-security"}; !slices.Equal(suites, want) {
			t.Errorf("%s has suites %v, want %v", name, suites, want)
		}
	}
}

func TestParse(t *testing.T) {
	c := parse(t, whole)
	if got, want := c.Mirrors.URL("https://dl.k8s.io/x"), "http://127.0.0.1:5080/dl.k8s.io/x"; got != want {
		t.Errorf("mirror of a URL is %q, want %q", got, want)
	}
	if got, _ := c.Mirrors.Repository("registry.k8s.io/pause"); got != "127.0.0.1:5000/registry.k8s.io/pause" {
		t.Errorf("mirror of a repository is %q", got)
	}
	got, err := c.Target("debian-12")
	if err != nil {
		t.Fatal(err)
	}
	want := hostpkg.Target{
		Name: "debian-12", Manager: "apt", Directives: []string{"apt", "apt24"}, Base: []string{"apt"},
		Sources: []hostpkg.Archive{{URL: "http://archive.example/debian", Suites: []string{"bookworm"}, Components: []string{"main", "contrib"}, SignedBy: "/keys/example.gpg"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a target does not replace the built-in one (-want +got):\n%s", diff)
	}
	ubuntu, err := c.Target("ubuntu-24.04")
	if err != nil || !ubuntu.Reaches("apt") || !ubuntu.Reaches("apt24") || ubuntu.Reaches("apt26") || len(ubuntu.Base) == 0 {
		t.Errorf("a new target is %+v, %v; want the directives of its name and the usual base", ubuntu, err)
	}
	if _, err := c.Target("debian-13"); err != nil {
		t.Errorf("the other built-in target is gone: %v", err)
	}
}

func TestCommentedSettingsChangeNothing(t *testing.T) {
	for _, text := range []string{"", "# mirrors:\n#   a: b\n", "---\n# nothing\n", "mirrors:\n  # a: b\ntargets:\ndefaultTargets:\nsignatures:\nlicenses: ~\n"} {
		if got, err := config.Parse("sealift.yaml", strings.NewReader(text)); err != nil || !reflect.DeepEqual(got, config.Default()) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestUnknownTargetNamesNearest(t *testing.T) {
	_, err := config.Default().Target("debian12")
	if err == nil || !strings.Contains(err.Error(), `did you mean "debian-12"?`) {
		t.Errorf("got %v", err)
	}
	_, err = config.Default().Target("solaris-11")
	if err == nil || !strings.Contains(err.Error(), "there are amazon-2023, debian-12, debian-13") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesNameTheirPosition(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string // beginnings of the findings, in order
	}{
		"an unknown section":             {"mirors: {}\n", []string{`sealift.yaml:1:1: error: unknown key "mirors" in the configuration (did you mean "mirrors"?)`}},
		"a license of no package":        {"licenses: {forbidden: [MIT, AGPL-3.0]}\n", []string{`sealift.yaml:1:29: error: nothing has the license "AGPL-3.0": bills of materials have SPDX identifiers (did you mean "AGPL-`}},
		"an unknown license":             {"licenses: {forbidden: [whatever]}\n", []string{`sealift.yaml:1:24: error: nothing has the license "whatever": bills of materials have SPDX identifiers (SPDX lists them on`}},
		"an exception without end":       {"licenses: {exceptions: [{license: MIT, image: a.b, reason: x}]}\n", []string{"sealift.yaml:1:25: error: an exception needs license, reason and until"}},
		"an exception for all":           {"licenses: {exceptions: [{license: MIT, reason: x, until: 2027-01-31}]}\n", []string{"sealift.yaml:1:25: error: an exception needs an image or a package"}},
		"a day that is none":             {"licenses: {exceptions: [{license: MIT, package: x, reason: x, until: 2027-02-30}]}\n", []string{`sealift.yaml:1:70: error: until is "2027-02-30" (write the last day`}},
		"a short name of an image":       {"signatures: {busybox: {unsigned: true}}\n", []string{`sealift.yaml:1:14: error: signatures: "busybox" is not the beginning of a repository's name`}},
		"a key given twice":              {"mirrors: {}\nmirrors: {}\n", []string{"sealift.yaml:2:1: error:"}},
		"a bad rule beside another":      {"mirrors:\n  https://a/: b\n  quay.io/: c\n", []string{"sealift.yaml:2:3: error: mirror \"https://a/\"", "sealift.yaml:3:3: error: mirror \"quay.io/\""}},
		"an unknown field":               {"targets:\n  a-1:\n    base: [apt]\n    source: []\n", []string{"sealift.yaml:2:3: error: target a-1 has no sources", `sealift.yaml:4:5: error: unknown key "source" in target a-1`}},
		"an unknown directive":           {strings.Replace(whole, "apt24]", "apt25]", 1), []string{`sealift.yaml:6:23: error: "apt25" is not a directive for host packages (did you mean "apt24"`}},
		"directives of two managers":     {strings.Replace(whole, "apt24]", "yum]", 1), []string{`sealift.yaml:6:5: error: target debian-12 has directives of both apt and yum (split it into two targets)`}},
		"modules of apt":                 {strings.Replace(whole, "    sources:", "    modules: [a:b]\n    sources:", 1), []string{"sealift.yaml:5:3: error: target debian-12: only yum has modules"}},
		"suites of yum":                  {"targets:\n  rhel-9:\n    sources: [{url: https://a/, suites: [a], signedBy: /a}]\n", []string{"sealift.yaml:2:3: error: target rhel-9: source \"https://a/\": suites and components are for apt"}},
		"keys over plain http":           {"targets:\n  rhel-9:\n    sources: [{url: https://a/, signedBy: http://a/key}]\n", []string{"sealift.yaml:2:3: error: target rhel-9: source \"https://a/\": signedBy must be"}},
		"a module without a stream":      {"targets:\n  rhel-9:\n    modules: [nginx]\n    sources: [{url: https://a/, signedBy: /a}]\n", []string{"sealift.yaml:2:3: error: target rhel-9: \"nginx\" is not a stream of a module"}},
		"a switch that is not a boolean": {"targets:\n  rhel-9:\n    sources: [{url: https://a/, signedBy: /a, mirrorList: yes}]\n", []string{"sealift.yaml:3:59: error: mirrorList must be true or false"}},
		"a default that is unknown":      {"defaultTargets: [debian-12, debian-9]\n", []string{"sealift.yaml:1:29: error: target debian-9 is not known"}},
		"a target that is not a name":    {"targets:\n  ../x: {sources: [{url: http://a, suites: [a], components: [a], signedBy: /a}]}\n", []string{`sealift.yaml:2:3: error: target "../x": a name has`}},
		"a source that is no URL":        {strings.Replace(whole, "http://archive.example/debian", "file:/debian", 1), []string{"sealift.yaml:5:3: error: target debian-12: source"}},
		"a relative keyring":             {strings.Replace(whole, "/keys/example.gpg", "example.gpg", 1), []string{"sealift.yaml:5:3: error: target debian-12: source"}},
		"not YAML":                       {"mirrors: [\n", []string{"sealift.yaml:"}},
		"an alias of nothing":            {"mirrors: {}\ntargets: *a\n", []string{"sealift.yaml:"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("sealift.yaml", strings.NewReader(test.text))
			var found diag.Errors
			if !errors.As(err, &found) {
				t.Fatalf("got %v, want findings", err)
			}
			for i, want := range test.want {
				if i >= len(found) || !strings.HasPrefix(found[i].Error(), want) {
					t.Errorf("got\n%v\nwant as number %d: %s", err, i+1, want)
				}
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Run("without a file in the working directory the defaults hold", func(t *testing.T) {
		t.Chdir(t.TempDir())
		c, err := config.Load("")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(config.Default().Targets, c.Targets); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("sealift.yaml of the working directory is read", func(t *testing.T) {
		dir := t.TempDir()
		t.Chdir(dir)
		if err := os.WriteFile(filepath.Join(dir, "sealift.yaml"), []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load("")
		if err != nil || len(c.Targets) != len(config.Default().Targets) {
			t.Errorf("got %d targets, %v", len(c.Targets), err)
		}
	})
	t.Run("a file that was asked for must be there", func(t *testing.T) {
		if _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("targets:\n  a: [b]\nmirrors: {a: {b: c}}\n")
	f.Add("mirrors: null\ntargets: ~\n")
	f.Add("? [a]\n: b\n")
	f.Add("signatures: {a.b: {keys: ['-----BEGIN', x.pub], identities: [{issuer: a}], trustedRoot: '{', attestations: [b], unsigned: true}, '*': []}\nlicenses: {forbidden: [MIT], exceptions: [{license: MIT, image: a, reason: b, until: 2027-01-31}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("sealift.yaml", strings.NewReader(text))
		if err != nil {
			return
		}
		for _, target := range c.Targets {
			if err := target.Check(); err != nil {
				t.Errorf("accepted a target that is wrong: %v", err)
			}
		}
	})
}

func TestBuiltinTargetsAreComplete(t *testing.T) {
	directives := map[string]string{
		"amazon-2023": "yum yum2023", "debian-12": "apt", "debian-13": "apt", "rhel-10": "yum", "rhel-8": "yum yum8", "rhel-9": "yum yum9",
		"ubuntu-22.04": "apt", "ubuntu-24.04": "apt apt24", "ubuntu-26.04": "apt apt26",
	}
	c := config.Default()
	if len(c.Targets) != len(directives) {
		t.Errorf("there are %d targets, want %d", len(c.Targets), len(directives))
	}
	for _, target := range c.Targets {
		if err := target.Check(); err != nil {
			t.Error(err)
		}
		if got := strings.Join(target.Directives, " "); got != directives[target.Name] {
			t.Errorf("%s is reached by %q, want %q", target.Name, got, directives[target.Name])
		}
		for _, platform := range []string{"linux/amd64", "linux/arm64"} {
			if _, err := target.Architecture(platform); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestYumTargetIsParsed(t *testing.T) {
	const text = `defaultTargets: [rocky-9]
targets:
  rocky-9:
    directives: [yum, yum9]
    platform: platform:el9
    modules: [nginx:1.24]
    sources:
    - url: https://mirror.example/$basearch/
      signedBy: https://mirror.example/KEY
      mirrorList: true
      signedMetadata: true
      architectures: [x86_64]
`
	c, err := config.Parse("sealift.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Target("rocky-9")
	if err != nil {
		t.Fatal(err)
	}
	want := hostpkg.Target{
		Name: "rocky-9", Manager: "yum", Directives: []string{"yum", "yum9"}, Base: []string{"bash", "dnf", "rpm", "systemd"},
		Platform: "platform:el9", Modules: []string{"nginx:1.24"},
		Sources: []hostpkg.Archive{{
			URL: "https://mirror.example/$basearch/", SignedBy: "https://mirror.example/KEY", MirrorList: true, SignedMetadata: true, Architectures: []string{"x86_64"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(c.DefaultTargets, []string{"rocky-9"}) {
		t.Errorf("the default is %v", c.DefaultTargets)
	}
}

// preflight names them to hosts for which a bundle has no packages.
func TestBuiltinTargetsMatchManifest(t *testing.T) {
	var names []string
	for _, target := range config.Default().Targets {
		names = append(names, target.Name)
	}
	if !slices.Equal(names, manifest.BuiltInTargets()) {
		t.Errorf("built in are %v, the manifest says %v", names, manifest.BuiltInTargets())
	}
}
