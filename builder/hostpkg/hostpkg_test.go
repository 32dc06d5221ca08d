package hostpkg

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/cache"
)

func TestResolve(t *testing.T) {
	a := newArchive(t)
	a.add("tool", "1:2.0-1", "Depends: libtool (>= 3), libc6", "Recommends: extras")
	a.add("libtool", "2.0-1")
	a.add("libtool", "3.1-1", "Depends: data")
	a.add("data", "1.0")
	a.add("extras", "1.0")
	a.add("chooser", "1.0", "Depends: absent | data")
	a.add("mailer", "1.0", "Depends: mail-agent")
	a.add("postie", "1.0", "Provides: mail-agent")
	a.add("g++-tool", "1.0")
	a.add("apt-transport", "2.6", "Source: apt", "Depends: apt (= 2.6)")
	a.add("libc-dev", "2.36-1+b2", "Source: glibc (2.36-1)")
	a.publish()
	tests := map[string]struct {
		names []string
		want  string
	}{
		"the closure beyond a minimal host, in the versions that are asked for": {[]string{"tool"}, "data=1.0 libtool=3.1-1 tool=1:2.0-1"},
		"several packages are one transaction":                                  {[]string{"tool", "mailer", "tool"}, "data=1.0 libtool=3.1-1 mailer=1.0 postie=1.0 tool=1:2.0-1"},
		"an alternative that exists is taken":                                   {[]string{"chooser"}, "chooser=1.0 data=1.0"},
		"a virtual package is provided":                                         {[]string{"mailer"}, "mailer=1.0 postie=1.0"},
		"a virtual package may be wanted itself":                                {[]string{"mail-agent"}, "postie=1.0"},
		"a name with a plus is a name":                                          {[]string{"g++-tool"}, "g++-tool=1.0"},
		"what a minimal host has of the same source comes along":                {[]string{"apt-transport"}, "apt-transport=2.6 apt=2.6"},
		"what it has of another source does not":                                {[]string{"libc-dev"}, "libc-dev=2.36-1+b2"},
		"what a minimal host has is left out":                                   {[]string{"apt", "base-files"}, ""},
	}
	c := openCache(t)
	source := a.source(c)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			resolved, err := source.Resolve(t.Context(), a.target(), "amd64", test.names)
			if err != nil {
				t.Fatal(err)
			}
			if got := listed(resolved); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, r := range resolved {
				if !strings.HasPrefix(r.URL, "http://archive.example.com/test/pool/") || r.Target != "test-1" || r.Arch != "amd64" {
					t.Errorf("got %+v, want upstream's URL, the target and the architecture", r)
				}
				if _, err := source.Fetch(t.Context(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestUnresolvablePackagesAreNamed(t *testing.T) {
	a := newArchive(t)
	a.add("good", "1.0")
	a.add("broken", "1.0", "Depends: absent")
	a.add("left", "1.0", "Conflicts: right")
	a.add("right", "1.0")
	a.add("other.name", "1.0")
	a.publish()
	tests := map[string]struct {
		names []string
		want  map[string]string // name to a part of its message
		whole string            // a part of the error when no name is to blame
	}{
		"unknown packages, all of them":          {[]string{"good", "nope", "nada"}, map[string]string{"nope": "Unable to locate package nope", "nada": "Unable to locate package nada"}, ""},
		"a dependency that does not exist":       {[]string{"broken", "good"}, map[string]string{"broken": "unmet dependencies|broken packages"}, ""},
		"a name is never taken for a pattern":    {[]string{"other.nam."}, map[string]string{"other.nam.": "Unable to locate package"}, ""},
		"a name is never taken for a removal":    {[]string{"good-"}, map[string]string{"good-": "not the name"}, ""},
		"a name is never taken for an option":    {[]string{"-o=x"}, map[string]string{"-o=x": "not the name"}, ""},
		"packages that exclude one another":      {[]string{"left", "right"}, nil, "packages for test-1"},
		"a plus at the end is part of the name":  {[]string{"good+"}, map[string]string{"good+": "Unable to locate package"}, ""},
		"a version is not part of a name either": {[]string{"good=1.0"}, map[string]string{"good=1.0": "not the name"}, ""},
	}
	source := a.source(openCache(t))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := source.Resolve(t.Context(), a.target(), "amd64", test.names)
			var typed *Error
			if !errors.As(err, &typed) || typed.Target != "test-1" {
				t.Fatalf("got %v, want an *Error of the target", err)
			}
			if len(typed.Names) != len(test.want) || !strings.Contains(err.Error(), test.whole) {
				t.Errorf("got %v, want %d names", err, len(test.want))
			}
			for name, want := range test.want {
				if !slices.ContainsFunc(strings.Split(want, "|"), func(s string) bool { return strings.Contains(typed.Names[name], s) }) {
					t.Errorf("%s: got %q, want %q in it", name, typed.Names[name], want)
				}
			}
		})
	}
}

func TestUntrustedArchiveIsRefused(t *testing.T) {
	tests := map[string]func(a *archive){
		"an index signed by a stranger": func(a *archive) {
			a.write("dists/test/InRelease", mustRead(a.t, filepath.Join(newPublished(a.t).dir, "dists/test/InRelease")))
		},
		"an index changed after it was signed": func(a *archive) {
			signed := mustRead(a.t, filepath.Join(a.dir, "dists/test/InRelease"))
			a.write("dists/test/InRelease", []byte(strings.Replace(string(signed), "Origin: Test", "Origin: Best", 1)))
		},
		"an index that is not signed": func(a *archive) {
			signed := string(mustRead(a.t, filepath.Join(a.dir, "dists/test/InRelease")))
			_, text, _ := strings.Cut(signed, "\n\n")
			text, _, _ = strings.Cut(text, "-----BEGIN PGP SIGNATURE")
			a.write("dists/test/Release", []byte(text))
			if err := os.Remove(filepath.Join(a.dir, "dists/test/InRelease")); err != nil {
				a.t.Fatal(err)
			}
		},
		"a list that is not the one the index names": func(a *archive) {
			a.write("dists/test/main/binary-amd64/Packages", []byte(strings.Replace(a.index.String(), "2.36", "2.37", 1)))
		},
	}
	for name, tamper := range tests {
		t.Run(name, func(t *testing.T) {
			a := newPublished(t)
			tamper(a)
			if resolved, err := a.resolve("tool"); err == nil {
				t.Errorf("got %s", listed(resolved))
			}
		})
	}
	t.Run("also when a trusted one was read before", func(t *testing.T) {
		a, c := newPublished(t), openCache(t)
		if _, err := a.source(c).Resolve(t.Context(), a.target(), "amd64", []string{"tool"}); err != nil {
			t.Fatal(err)
		}
		tests["an index signed by a stranger"](a)
		if resolved, err := a.source(c).Resolve(t.Context(), a.target(), "amd64", []string{"tool"}); err == nil {
			t.Errorf("got %s", listed(resolved))
		}
	})
}

func newPublished(t *testing.T) *archive {
	t.Helper()
	a := newArchive(t)
	a.add("tool", "1.0")
	a.publish()
	return a
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPackageMissingFromIndexIsRefused(t *testing.T) {
	a, c := newPublished(t), openCache(t)
	source := a.source(c)
	resolved, err := source.Resolve(t.Context(), a.target(), "amd64", []string{"tool"})
	if err != nil {
		t.Fatal(err)
	}
	deb := mustRead(t, filepath.Join(a.dir, "pool/tool_1.0_amd64.deb"))
	deb[len(deb)-1] ^= 1
	a.write("pool/tool_1.0_amd64.deb", deb)
	_, err = source.Fetch(t.Context(), resolved[0])
	if !errors.Is(err, cache.ErrMismatch) || !strings.Contains(err.Error(), "package tool 1.0 for test-1") {
		t.Errorf("got %v", err)
	}
}

func TestUnchangedIndexesAreNotReread(t *testing.T) {
	a, c := newPublished(t), openCache(t)
	const list = "/dists/test/main/binary-amd64/Packages"
	for range 2 {
		if _, err := a.source(c).Resolve(t.Context(), a.target(), "amd64", []string{"tool"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.statuses["/dists/test/InRelease"]; !slices.Equal(got, []int{200, 304}) {
		t.Errorf("the index was answered with %v, want 200 and then 304", got)
	}
	if got := a.statuses[list]; !slices.Equal(got, []int{200}) {
		t.Errorf("the list was answered with %v, want one 200", got)
	}
	a.add("tool", "2.0")
	a.add("newer", "1.0", "Priority: required") // changes the packages of a minimal host
	a.publish()
	resolved, err := a.source(c).Resolve(t.Context(), a.target(), "amd64", []string{"tool", "newer"})
	if err != nil || listed(resolved) != "tool=2.0" {
		t.Errorf("after an update of the archive: %s, %v; want tool=2.0", listed(resolved), err)
	}
}

func TestMissingToolsAndKeysAreNamed(t *testing.T) {
	a := newPublished(t)
	t.Run("keyring", func(t *testing.T) {
		target := a.target()
		target.Sources[0].SignedBy = "/nowhere/keyring.gpg"
		_, err := a.source(openCache(t)).Resolve(t.Context(), target, "amd64", []string{"tool"})
		if err == nil || !strings.Contains(err.Error(), "/nowhere/keyring.gpg") || !strings.Contains(err.Error(), "signedBy") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("apt-get", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := a.resolve("tool")
		if err == nil || !strings.Contains(err.Error(), "apt-get is needed") {
			t.Errorf("got %v", err)
		}
	})
}

func TestMachineAptConfigurationIsIgnored(t *testing.T) {
	a := newPublished(t)
	hostile := filepath.Join(t.TempDir(), "apt.conf")
	if err := os.WriteFile(hostile, []byte("APT::Install-Recommends \"true\";\nDir::State::status \"/nowhere\";\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("APT_CONFIG", hostile)
	a.add("lone", "1.0", "Recommends: tool")
	a.publish()
	resolved, err := a.resolve("lone")
	if err != nil || listed(resolved) != "lone=1.0" {
		t.Errorf("got %s, %v", listed(resolved), err)
	}
}

func FuzzParseURIs(f *testing.F) {
	f.Add("'http://a/pool/x_1%3a2_amd64.deb' x_1%3a2_amd64.deb 12 SHA256:" + strings.Repeat("ab", 32) + "\n")
	f.Add("'http://a/x' ../x_1_all.deb 12 SHA256:" + strings.Repeat("ab", 32) + "\n")
	f.Add("Reading package lists...\n'")
	f.Fuzz(func(t *testing.T, text string) {
		resolved, err := parseURIs(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range resolved {
			if r.Size <= 0 || len(r.SHA256) != 64 || !validName(r.Name) || r.URL == "" || filepath.Base(r.fileName()) != r.fileName() {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}

func FuzzScanRequired(f *testing.F) {
	f.Add("Package: a-b\nPriority: required\n\nPackage: c-d\nPriority: optional\n\nPackage: ee\nEssential: yes\n")
	f.Add("Priority: required\n\nPackage: " + strings.Repeat("x", 5000) + "\nEssential: yes")
	f.Fuzz(func(t *testing.T, text string) {
		names, err := scanRequired(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !validName(name) {
				t.Errorf("accepted %q", name)
			}
		}
	})
}
