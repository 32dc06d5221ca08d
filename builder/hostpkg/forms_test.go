package hostpkg

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/mirror"
)

// publishFlat writes the indexes of a flat repository into a folder of the archive.
func (a *archive) publishFlat(folder string) {
	a.t.Helper()
	packages := a.index.Bytes()
	a.write(filepath.Join(folder, "Packages"), packages)
	release := fmt.Sprintf("Origin: Test\nDate: %s +0000\nSHA256:\n %x %d Packages\n",
		time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05"), sha256.Sum256(packages), len(packages))
	a.write(filepath.Join(folder, "InRelease"), a.gpg(release, "gpg", "--batch", "--clearsign"))
}

// republish changes the archive's index and Release.
func (a *archive) republish(index func(string) string, release func(string) string) {
	a.t.Helper()
	changed := index(a.index.String())
	a.index.Reset()
	a.index.WriteString(changed)
	const packages = "main/binary-amd64/Packages"
	a.write("dists/test/"+packages, a.index.Bytes())
	text := fmt.Sprintf("Origin: Test\nSuite: test\nCodename: test\nDate: %s +0000\nArchitectures: amd64\nComponents: main\nSHA256:\n %x %d %s\n",
		time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05"), sha256.Sum256(a.index.Bytes()), a.index.Len(), packages)
	a.write("dists/test/InRelease", a.gpg(release(text), "gpg", "--batch", "--clearsign"))
}

func same(s string) string { return s }

func TestFileNamesOfIndexesAreCleaned(t *testing.T) {
	for written, want := range map[string]string{
		"./pool/tool_1.0_amd64.deb":          "pool/tool_1.0_amd64.deb",
		"pool/../pool//tool_1.0_amd64.deb":   "pool/tool_1.0_amd64.deb",
		"././pool/./tool_1.0_amd64.deb":      "pool/tool_1.0_amd64.deb",
		"../elsewhere/tool_1.0_amd64.deb":    "",
		"pool/../../evil/tool_1.0_amd64.deb": "",
	} {
		t.Run(written, func(t *testing.T) {
			a := newPublished(t)
			a.republish(func(index string) string {
				return strings.Replace(index, "Filename: pool/tool_1.0_amd64.deb", "Filename: "+written, 1)
			}, same)
			resolved, err := a.resolve("tool")
			if want == "" {
				if err == nil || !strings.Contains(err.Error(), "outside the archive") {
					t.Errorf("got %+v, %v", resolved, err)
				}
				return
			}
			if err != nil || resolved[0].URL != "http://archive.example.com/test/"+want {
				t.Fatalf("got %+v, %v", resolved, err)
			}
			fresh := a.source(openCache(t))
			if err := fresh.CheckLocked(t.Context(), a.target(), "amd64", resolved); err != nil {
				t.Errorf("our own lock is refused: %v", err)
			}
			resolved[0].URL = "http://archive.example.com/test/./" + want // as locks had it
			if err := fresh.CheckLocked(t.Context(), a.target(), "amd64", resolved); err != nil {
				t.Errorf("a lock that an earlier version wrote is refused: %v", err)
			}
			if _, err := fresh.Fetch(t.Context(), resolved[0]); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFlatRepositoriesAreRead(t *testing.T) {
	for suite, folder := range map[string]string{"/": "", "./": "", "flat/": "flat", "a/b/": "a/b"} {
		t.Run(suite, func(t *testing.T) {
			a := newArchive(t)
			a.add("tool", "1.0")
			a.publishFlat(folder)
			target, c := a.target(), openCache(t)
			target.Sources[0].Suites, target.Sources[0].Components = []string{suite}, nil
			source := a.source(c)
			resolved, err := source.Resolve(t.Context(), target, "amd64", []string{"tool"})
			if err != nil || listed(resolved) != "tool=1.0" {
				t.Fatalf("got %s, %v", listed(resolved), err)
			}
			if _, err := source.Fetch(t.Context(), resolved[0]); err != nil {
				t.Error(err)
			}
			if err := a.source(openCache(t)).CheckLocked(t.Context(), target, "amd64", resolved); err != nil {
				t.Errorf("locked: %v", err)
			}
			solver, err := newAptSolver(source.options, target, "amd64")
			if err != nil {
				t.Fatal(err)
			}
			if !solver.current(t.Context()) {
				t.Error("indexes that apt has just read do not count as current")
			}
		})
	}
	for name, row := range map[string]struct{ suites, components []string }{
		"a flat repository with components": {[]string{"/"}, []string{"main"}},
		"both forms":                        {[]string{"./", "stable"}, nil},
		"a suite without components":        {[]string{"stable"}, nil},
		"neither":                           {nil, nil},
	} {
		target := Target{Name: "test-1", Sources: []Archive{{URL: "http://a/", Suites: row.suites, Components: row.components, SignedBy: "/a"}}}
		if err := target.Check(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestLockOutlivesDateOfItsIndex(t *testing.T) {
	a := newPublished(t)
	resolved, err := a.resolve("tool")
	if err != nil {
		t.Fatal(err)
	}
	expire := func(release string) string {
		return strings.Replace(release, "Architectures:", "Valid-Until: "+time.Now().UTC().AddDate(0, 0, -1).Format("Mon, 02 Jan 2006 15:04:05")+" +0000\nArchitectures:", 1)
	}
	a.republish(same, func(release string) string {
		return expire(strings.Replace(release, time.Now().UTC().Format("Mon, 02 Jan 2006"), time.Now().UTC().AddDate(0, 0, -9).Format("Mon, 02 Jan 2006"), 1))
	})
	source := a.source(openCache(t))
	if err := source.CheckLocked(t.Context(), a.target(), "amd64", resolved); err != nil {
		t.Errorf("locked: %v", err)
	}
	forged := resolved[0]
	forged.SHA256 = strings.Repeat("0", 64)
	if err := source.CheckLocked(t.Context(), a.target(), "amd64", []Resolved{forged}); err == nil || !strings.Contains(err.Error(), "no signed index") {
		t.Errorf("what the expired index does not have: %v", err)
	}
	if _, err := source.Resolve(t.Context(), a.target(), "amd64", []string{"tool"}); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("a lock is made from an expired index: %v", err)
	}
	a.write("dists/test/InRelease", []byte(strings.Replace(string(mustRead(t, filepath.Join(a.dir, "dists/test/InRelease"))), "Origin: Test", "Origin: Evil", 1)))
	if err := a.source(openCache(t)).CheckLocked(t.Context(), a.target(), "amd64", resolved); err == nil {
		t.Error("an index whose signature is bad is taken")
	}
}

// TestPackagesMayBeOnAnotherHost uses a repository whose primary.xml gives an xml:base.
func TestPackagesMayBeOnAnotherHost(t *testing.T) {
	for name, row := range map[string]struct {
		base, want string // of createrepo_c, and of the package
	}{
		"on another server":     {"https://cdn.example.com/files", "https://cdn.example.com/files/tool-1.0-1.x86_64.rpm"},
		"beside the repository": {"../files/", "https://yum.example.com/test/files/tool-1.0-1.x86_64.rpm"},
		"below the repository":  {"files", yumUpstream + "files/tool-1.0-1.x86_64.rpm"},
		"in the repository":     {yumUpstream, yumUpstream + "tool-1.0-1.x86_64.rpm"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newYumArchive(t)
			a.build(pkg("tool", "1.0-1"))
			a.run("createrepo_c", "--quiet", "--no-database", "--baseurl", row.base, a.dir)
			rpm := filepath.Join(a.dir, "tool-1.0-1.x86_64.rpm")
			mirrors, err := mirror.New(map[string]string{"https://yum.example.com/test/x86_64": a.server.URL, "https://cdn.example.com/files": a.server.URL, "https://yum.example.com/test/files": a.server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(a.dir, "files"), 0o755); err != nil {
				t.Fatal(err)
			}
			a.writeFile(filepath.Join(a.dir, "files/tool-1.0-1.x86_64.rpm"), mustRead(t, rpm))
			mirrored := func() *Source {
				source := a.source(openCache(t))
				source.options.Mirrors = mirrors
				return source
			}
			resolved, err := mirrored().Resolve(t.Context(), a.target(), "x86_64", []string{"tool"})
			if err != nil || len(resolved) != 1 || resolved[0].URL != row.want {
				t.Fatalf("got %+v, %v; want %s", resolved, err, row.want)
			}
			fresh := mirrored()
			if err := fresh.CheckLocked(t.Context(), a.target(), "x86_64", resolved); err != nil {
				t.Errorf("locked: %v", err)
			}
			if _, err := fresh.Fetch(t.Context(), resolved[0]); err != nil {
				t.Error(err)
			}
			forged := resolved[0]
			forged.URL = "https://evil.example.com/tool-1.0-1.x86_64.rpm"
			if err := fresh.CheckLocked(t.Context(), a.target(), "x86_64", []Resolved{forged}); err == nil || !strings.Contains(err.Error(), "is not in any source") {
				t.Errorf("a place that no repository names: %v", err)
			}
		})
	}
}
