package hostpkg

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/manifest"
)

// yumArchive is a yum repository on loopback, made of packages that rpmbuild built and rpmsign signed, with lists by
// createrepo_c.
type yumArchive struct {
	t      *testing.T
	dir    string // of the repository
	work   string
	gnupg  string
	keys   string // path of the armored keys
	specs  int
	server *httptest.Server
}

// rpmPackage is one package of a source. Lines belong to its part of the spec file, such as "Requires: other".
type rpmPackage struct {
	name, version string // version as [epoch:]version-release
	lines         []string
	files         []string
}

func pkg(name, version string, lines ...string) rpmPackage {
	return rpmPackage{name: name, version: version, lines: lines}
}

func (p rpmPackage) owns(files ...string) rpmPackage { p.files = files; return p }

func newYumArchive(t *testing.T) *yumArchive {
	t.Helper()
	short.Skip(t, "dnf and rpm")
	for _, tool := range []string{"dnf", "rpmbuild", "rpmsign", "createrepo_c", "modifyrepo_c"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v; apt-get install dnf rpm createrepo-c", err)
		}
	}
	gnupg, err := os.MkdirTemp("", "gnupg-") // gpg's sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	a := &yumArchive{t: t, dir: t.TempDir(), work: t.TempDir(), gnupg: gnupg}
	t.Cleanup(func() {
		a.run("gpgconf", "--kill", "all")
		_ = os.RemoveAll(gnupg)
	})
	a.run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "yum@example.com", "ed25519", "sign", "never")
	a.keys = filepath.Join(a.work, "keys.asc")
	a.writeFile(a.keys, a.run("gpg", "--export", "--armor"))
	a.server = httptest.NewServer(http.FileServer(http.Dir(a.dir)))
	t.Cleanup(a.server.Close)
	return a
}

func (a *yumArchive) run(tool string, args ...string) []byte {
	a.t.Helper()
	cmd := exec.Command(tool, args...)
	cmd.Env = append(os.Environ(), "GNUPGHOME="+a.gnupg, "HOME="+a.work, "LC_ALL=C.UTF-8")
	cmd.Dir = a.work
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatalf("%s %v: %v: %s%s", tool, args, err, out, stderr.String())
	}
	return out
}

func (a *yumArchive) writeFile(path string, data []byte) {
	a.t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// build builds the packages of one source and signs them.
func (a *yumArchive) build(packages ...rpmPackage) {
	a.t.Helper()
	a.specs++
	var head, install, files strings.Builder
	for i, p := range packages {
		section := " -n " + p.name
		if i == 0 {
			section = ""
			fmt.Fprintf(&head, "Name: %s\n", p.name)
		} else {
			fmt.Fprintf(&head, "%%package%s\n", section)
		}
		epoch, rest, found := strings.Cut(p.version, ":")
		if !found {
			epoch, rest = "0", p.version
		}
		version, release, _ := strings.Cut(rest, "-")
		fmt.Fprintf(&head, "Version: %s\nRelease: %s\nSummary: package %s of the test\nLicense: MIT\n", version, release, p.name)
		if epoch != "0" {
			fmt.Fprintf(&head, "Epoch: %s\n", epoch)
		}
		fmt.Fprintf(&head, "%s\n%%description%s\nIt does nothing, <at> all.\n", strings.Join(p.lines, "\n"), section)
		fmt.Fprintf(&files, "%%files%s\n%s\n", section, strings.Join(p.files, "\n"))
		for _, f := range p.files {
			fmt.Fprintf(&install, "mkdir -p %%{buildroot}%s; echo %s > %%{buildroot}%s\n", filepath.Dir(f), p.name, f)
		}
	}
	spec := filepath.Join(a.work, fmt.Sprintf("%d.spec", a.specs))
	a.writeFile(spec, []byte(head.String()+"%install\n"+install.String()+files.String()))
	out := filepath.Join(a.work, fmt.Sprint("out", a.specs))
	a.run("rpmbuild", "-bb", "--quiet", "--target", "x86_64", "--define", "_topdir "+filepath.Join(a.work, "top"), "--define", "_rpmdir "+out,
		"--define", "_build_id_links none", "--define", "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", spec)
	built, err := filepath.Glob(filepath.Join(out, "*.rpm"))
	if err != nil || len(built) != len(packages) {
		a.t.Fatalf("rpmbuild made %v, %v", built, err)
	}
	gpg, err := exec.LookPath("gpg")
	if err != nil {
		a.t.Fatal(err)
	}
	a.run("rpmsign", append([]string{"--addsign", "--define", "_gpg_name yum@example.com", "--define", "__gpg " + gpg}, built...)...)
	for _, file := range built {
		if err := os.Rename(file, filepath.Join(a.dir, filepath.Base(file))); err != nil {
			a.t.Fatal(err)
		}
	}
}

// publish writes the lists; modules is modules.yaml, or empty.
func (a *yumArchive) publish(modules string) {
	a.t.Helper()
	a.run("createrepo_c", "--quiet", "--no-database", a.dir)
	if modules != "" {
		file := filepath.Join(a.work, "modules.yaml")
		a.writeFile(file, []byte(modules))
		a.run("modifyrepo_c", "--mdtype=modules", file, filepath.Join(a.dir, "repodata"))
	}
}

const yumUpstream = "https://yum.example.com/test/x86_64/"

func (a *yumArchive) target(base ...string) Target {
	return Target{
		Name: "test-9", Manager: manifest.ManagerYum, Directives: []string{"yum"}, Base: base, Platform: "platform:el9",
		Sources: []Archive{{URL: "https://yum.example.com/test/$basearch", SignedBy: a.keys}},
	}
}

// source is a source that reaches the repository through a mirror.
func (a *yumArchive) source(c *cache.Cache) *Source {
	a.t.Helper()
	mirrors, err := mirror.New(map[string]string{"https://yum.example.com/test/x86_64": a.server.URL})
	if err != nil {
		a.t.Fatal(err)
	}
	retry := fetch.Retry{Attempts: 2, Wait: time.Millisecond}
	return NewSource(Options{Cache: c, Fetcher: fetch.New(c, retry, nil), Mirrors: mirrors, Targets: []Target{a.target()}})
}
