package hostpkg

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
)

// streams describes two streams of the module web. Stream 1 is the default.
const streams = `---
document: modulemd
version: 2
data:
  name: web
  stream: "1"
  version: 1001
  context: aaaa
  arch: x86_64
  summary: web
  description: web
  license: {module: [MIT]}
  artifacts: {rpms: ["webd-0:1.5-1.x86_64"]}
...
---
document: modulemd
version: 2
data:
  name: web
  stream: "2"
  version: 1002
  context: bbbb
  arch: x86_64
  summary: web
  description: web
  license: {module: [MIT]}
  artifacts: {rpms: ["webd-0:2.5-1.x86_64"]}
...
---
document: modulemd-defaults
version: 1
data: {module: web, stream: "1"}
...
`

// family builds a repository with each kind of relation.
func family(t *testing.T) *yumArchive {
	t.Helper()
	a := newYumArchive(t)
	a.build(pkg("glib", "2.34-60").owns("/usr/lib64/libg.so"), pkg("glib-extra", "2.34-60", "Requires: glib = 2.34-60"))
	a.build(pkg("init", "252-1", "Requires: glib").owns("/usr/bin/init"))
	a.build(
		pkg("extras", "1-1"), // the first, since the others inherit its epoch
		pkg("tool", "3:2.0-1", "Requires: libtool >= 3", "Requires: /opt/tool/data", "Recommends: extras"),
		pkg("tool-data", "1.0-1").owns("/opt/tool/data"),
		pkg("mailer", "1.0-1", "Requires: mail-agent >= 2"),
		pkg("oldpostie", "1.0-1", "Provides: mail-agent = 1"),
		pkg("newpostie", "1.0-1", "Provides: mail-agent = 2"),
		pkg("chooser", "1.0-1", "Requires: (absent or tool-data)"),
		pkg("linker", "1.0-1", "Requires: glib-extra"),
		pkg("broken", "1.0-1", "Requires: absent"),
		pkg("left", "1.0-1", "Conflicts: right"),
		pkg("right", "1.0-1"),
	)
	a.build(pkg("libtool", "2.0-1"))
	a.build(pkg("libtool", "3.1-1"))
	a.build(pkg("webd", "1.5-1", "ModularityLabel: web:1:1001:aaaa"))
	a.build(pkg("webd", "2.5-1", "ModularityLabel: web:2:1002:bbbb"))
	a.publish(streams)
	return a
}

func TestYumResolve(t *testing.T) { resolvesYum(t, script4) }

// TestYumResolveWithDNF5 asks version 5 the same. Debian has it from release 14 on.
func TestYumResolveWithDNF5(t *testing.T) {
	short.Skip(t, "dnf and rpm")
	if err := exec.Command("python3", "-c", "import libdnf5").Run(); err != nil {
		t.Skip("python3 has no module libdnf5")
	}
	resolvesYum(t, script5)
}

func resolvesYum(t *testing.T, script string) {
	a := family(t)
	bare := a.target("init")
	second := a.target("init")
	second.Modules = []string{"web:2"}
	tests := map[string]struct {
		target Target
		names  []string
		want   string
	}{
		"the closure beyond a minimal host, by versions, paths and no recommendations": {bare, []string{"tool"}, "libtool=3.1-1 tool=3:2.0-1 tool-data=1.0-1"},
		"several packages are one transaction":                                         {bare, []string{"tool", "mailer", "tool"}, "libtool=3.1-1 mailer=1.0-1 newpostie=1.0-1 tool=3:2.0-1 tool-data=1.0-1"},
		"a capability is provided in the version that is asked for":                    {bare, []string{"mailer"}, "mailer=1.0-1 newpostie=1.0-1"},
		"a capability may be wanted itself":                                            {bare, []string{"mail-agent"}, "newpostie=1.0-1|oldpostie=1.0-1"},
		"an alternative that exists is taken":                                          {bare, []string{"chooser"}, "chooser=1.0-1 tool-data=1.0-1"},
		"what a minimal host has is left out":                                          {bare, []string{"init"}, ""},
		"what is of one source with a carried package comes with it":                   {bare, []string{"linker"}, "glib=2.34-60 glib-extra=2.34-60 linker=1.0-1"},
		"without a base the whole closure comes":                                       {a.target(), []string{"init"}, "glib=2.34-60 init=252-1"},
		"the default stream of a module":                                               {bare, []string{"webd"}, "webd=1.5-1"},
		"a stream that the target enables":                                             {second, []string{"webd"}, "webd=2.5-1"},
	}
	c := openCache(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			source := a.source(c)
			if script == script5 {
				source.options.DNF = elf(t)
			}
			resolved, err := source.Resolve(t.Context(), test.target, "x86_64", test.names)
			if err != nil {
				t.Fatal(err)
			}
			if got := listed(resolved); !strings.Contains("|"+test.want+"|", "|"+got+"|") {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, r := range resolved {
				if !strings.HasPrefix(r.URL, yumUpstream) || r.Target != "test-9" || r.Arch != "x86_64" || r.Key == "" {
					t.Errorf("got %+v, want upstream's URL, the target, the architecture and the keys", r)
				}
				if stored, err := source.Fetch(t.Context(), r); err != nil || !stored.Cached {
					t.Errorf("fetch %s: %+v, %v; want it in the cache, where its signature was checked", r.Name, stored, err)
				}
			}
		})
	}
}

func TestUnresolvableYumPackagesAreNamed(t *testing.T) {
	a := family(t)
	tests := map[string]struct {
		names []string
		want  map[string]string // name to a part of its message
	}{
		"unknown packages, all of them":             {[]string{"tool", "nope", "nada"}, map[string]string{"nope": "nope", "nada": "nada"}},
		"a dependency that does not exist":          {[]string{"broken", "tool"}, map[string]string{"broken": "nothing provides absent"}},
		"packages that exclude one another":         {[]string{"left", "right"}, nil},
		"a name is never taken for a pattern":       {[]string{"too*"}, map[string]string{"too*": "not the name"}},
		"a name is never taken for a group":         {[]string{"@web"}, map[string]string{"@web": "not the name"}},
		"a name is never taken for an option":       {[]string{"-v"}, map[string]string{"-v": "not the name"}},
		"a name is never taken for a file":          {[]string{"/opt/tool/data"}, map[string]string{"/opt/tool/data": "not the name"}},
		"a version is not part of a name":           {[]string{"tool-2.0-1"}, map[string]string{"tool-2.0-1": "No match"}},
		"a stream that is not enabled is not there": {[]string{"webd-2.5"}, map[string]string{"webd-2.5": "No match"}},
	}
	source := a.source(openCache(t))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			resolved, err := source.Resolve(t.Context(), a.target(), "x86_64", test.names)
			var typed *Error
			if !errors.As(err, &typed) || typed.Target != "test-9" {
				t.Fatalf("got %s, %v, want an *Error of the target", listed(resolved), err)
			}
			if len(typed.Names) != len(test.want) {
				t.Errorf("got %v, want %d names", err, len(test.want))
			}
			for name, want := range test.want {
				if !strings.Contains(typed.Names[name], want) {
					t.Errorf("%s: got %q, want %q in it", name, typed.Names[name], want)
				}
			}
		})
	}
}

func TestRPMWithoutDistributionSignatureIsRefused(t *testing.T) {
	a := newYumArchive(t)
	a.build(pkg("tool", "1.0-1"))
	a.publish("")
	file := filepath.Join(a.dir, "tool-1.0-1.x86_64.rpm")
	signed := mustRead(t, file)
	tests := map[string]struct {
		tamper func(target *Target)
		want   string
	}{
		"it is not signed": {func(*Target) {
			a.run("rpmsign", "--delsign", file)
			a.publish("")
		}, "package tool 1.0-1: its signature is invalid"},
		"a stranger signed it": {func(target *Target) {
			target.Sources[0].SignedBy = newYumArchive(t).keys
		}, "package tool 1.0-1: its signature is invalid"},
		"it was changed after it was signed": {func(*Target) {
			changed := []byte(strings.Replace(string(signed), "It does nothing", "It does plenty!"[:15], 1))
			a.writeFile(file, changed)
			a.publish("")
		}, "package tool 1.0-1: its signature is invalid"},
		"it is not what the repository lists": {func(*Target) {
			changed := append([]byte{}, signed...)
			changed[len(changed)-1] ^= 1
			a.writeFile(file, changed)
		}, "does not match"},
		"the lists are not signed though they must be": {func(target *Target) {
			target.Sources[0].SignedMetadata = true
		}, "read the repositories"},
		"the keys are no keys": {func(target *Target) {
			target.Sources[0].SignedBy = filepath.Join(a.dir, "repodata/repomd.xml")
		}, "not an armored OpenPGP key"},
		"the keys are missing": {func(target *Target) {
			target.Sources[0].SignedBy = "/nowhere/keys.asc"
		}, "name others with signedBy"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a.writeFile(file, signed)
			a.publish("")
			target := a.target()
			test.tamper(&target)
			resolved, err := a.source(openCache(t)).Resolve(t.Context(), target, "x86_64", []string{"tool"})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s, %v; want %q", listed(resolved), err, test.want)
			}
		})
	}
	t.Run("and signed lists are accepted", func(t *testing.T) {
		a.writeFile(file, signed)
		a.publish("")
		a.run("gpg", "--batch", "--yes", "--detach-sign", "--armor", filepath.Join(a.dir, "repodata/repomd.xml"))
		target := a.target()
		target.Sources[0].SignedMetadata = true
		if _, err := a.source(openCache(t)).Resolve(t.Context(), target, "x86_64", []string{"tool"}); err != nil {
			t.Error(err)
		}
	})
}

func TestKeysAndMirrorListsMayBeURLs(t *testing.T) {
	a := newYumArchive(t)
	a.build(pkg("tool", "1.0-1"))
	a.publish("")
	a.writeFile(filepath.Join(a.dir, "KEY"), mustRead(t, a.keys))
	a.writeFile(filepath.Join(a.dir, "mirror.list"), []byte("# mirrors\nhttps://yum.example.com/test/x86_64\nhttps://far.example.com/\n"))
	target := a.target()
	target.Sources = []Archive{{URL: yumUpstream + "mirror.list", MirrorList: true, SignedBy: yumUpstream + "KEY"}}
	c := openCache(t)
	resolved, err := a.source(c).Resolve(t.Context(), target, "x86_64", []string{"tool"})
	if err != nil || len(resolved) != 1 || resolved[0].URL != yumUpstream+"tool-1.0-1.x86_64.rpm" {
		t.Fatalf("got %+v, %v", resolved, err)
	}
	locked := resolved[0]
	t.Run("a locked package brings its keys along", func(t *testing.T) {
		c := openCache(t)
		source := a.source(c)
		source.options.Targets = []Target{target}
		if _, err := source.Fetch(t.Context(), locked); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Stat(locked.Key); !ok {
			t.Error("the cache lacks the keys")
		}
	})
	t.Run("keys that were replaced since are refused", func(t *testing.T) {
		source := a.source(openCache(t))
		changed := target
		changed.Sources = []Archive{{URL: yumUpstream, SignedBy: newYumArchive(t).keys}}
		source.options.Targets = []Target{changed}
		if _, err := source.Fetch(t.Context(), locked); err == nil || !strings.Contains(err.Error(), "sealift lock --update") {
			t.Errorf("got %v", err)
		}
	})
}

func TestChangedYumListsAreReread(t *testing.T) {
	a := newYumArchive(t)
	a.build(pkg("tool", "1.0-1"))
	a.publish("")
	c := openCache(t)
	for _, want := range []string{"tool=1.0-1", "tool=1.0-1", "tool=2.0-1"} {
		if want == "tool=2.0-1" {
			a.build(pkg("tool", "2.0-1"))
			a.publish("")
		}
		resolved, err := a.source(c).Resolve(t.Context(), a.target(), "x86_64", []string{"tool"})
		if err != nil || listed(resolved) != want {
			t.Errorf("got %s, %v; want %s", listed(resolved), err, want)
		}
	}
}

func TestUnsupportedDNFIsNamed(t *testing.T) {
	a := newYumArchive(t)
	if exec.Command("python3", "-c", "import libdnf5").Run() == nil {
		t.Skip("python3 has the module libdnf5")
	}
	source := a.source(openCache(t))
	source.options.DNF = elf(t)
	_, err := source.Resolve(t.Context(), a.target(), "x86_64", []string{"tool"})
	if err == nil || !strings.Contains(err.Error(), "not version 4 of dnf") || !strings.Contains(err.Error(), "install the package python3-libdnf5") {
		t.Errorf("got %v", err)
	}
}

// elf is an ELF program, like dnf 5.
func elf(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dnf")
	if err := os.WriteFile(program, []byte("\x7fELF and so on\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}
