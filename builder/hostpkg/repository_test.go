package hostpkg

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/debian"
)

// unpack fetches packages and writes their repository to disk.
func unpack(t *testing.T, source *Source, resolved []Resolved) string {
	t.Helper()
	for _, r := range resolved {
		if _, err := source.Fetch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Repository("repo", resolved, source.options.Cache)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "repo"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(content)
		_ = content.Close()
		if err != nil || int64(len(data)) != f.Size || fmt.Sprintf("%x", sha256.Sum256(data)) != f.SHA256 {
			t.Fatalf("%s is not what it promises: %v", f.Path, err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Path), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "repo")
}

// hostOf is an apt that knows nothing but one repository, on a host with the given database.
func hostOf(t *testing.T, repository string) apt {
	t.Helper()
	host := apt{dir: t.TempDir(), get: "apt-get", cacheBin: "apt-cache"}
	if err := host.prepare("amd64", "Types: deb\nURIs: file:"+repository+"\nSuites: ./\nTrusted: yes\n"); err != nil {
		t.Fatal(err)
	}
	if err := host.run(t.Context(), host.get, drain, "update", "-q"); err != nil {
		t.Fatal(err)
	}
	return host
}

// plan is what apt-get on that host would install, as name=version words.
func plan(t *testing.T, host apt, status string, names []string) string {
	t.Helper()
	var out strings.Builder
	err := host.run(t.Context(), host.get, func(r io.Reader) error { _, err := io.Copy(&out, r); return err },
		append([]string{"install", "-o", "Dir::State::status=" + status, "-s", "-y", "--no-install-recommends"}, names...)...)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(out.String()) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "Inst" {
			words = append(words, fields[1]+"="+strings.TrimPrefix(fields[2], "("))
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestAptInstallsFromRepository(t *testing.T) {
	a := newArchive(t)
	a.add("tool", "1:2.0~rc1+b1", "Depends: libtool++ (>= 3)")
	a.add("libtool++", "3.1-1")
	a.publish()
	c := openCache(t)
	source := a.source(c)
	resolved, err := source.Resolve(t.Context(), a.target(), "amd64", []string{"tool"})
	if err != nil {
		t.Fatal(err)
	}
	host := hostOf(t, unpack(t, source, resolved))
	status := filepath.Join(host.dir, "status")
	if got := plan(t, host, status, []string{"tool"}); got != sorted(listed(resolved)) {
		t.Errorf("apt would install %s, want %s", got, listed(resolved))
	}
	// Downloading makes apt find every file and check its hash.
	if err := host.run(t.Context(), host.get, drain, "install", "-d", "-y", "tool"); err != nil {
		t.Error(err)
	}
}

func TestRepositoryDependsOnlyOnItsPackages(t *testing.T) {
	a := newPublished(t)
	c := openCache(t)
	source := a.source(c)
	resolved, err := source.Resolve(t.Context(), a.target(), "amd64", []string{"tool"})
	if err != nil {
		t.Fatal(err)
	}
	dir := unpack(t, source, resolved)
	packages, release := string(mustRead(t, filepath.Join(dir, "Packages"))), string(mustRead(t, filepath.Join(dir, "Release")))
	want := "Description: a package of the test\n It does nothing.\n .\n At all.\nFilename: ./tool_1.0_amd64.deb\n"
	if !strings.Contains(packages, want) {
		t.Errorf("Packages is\n%s\nwant in it\n%s", packages, want)
	}
	if !strings.Contains(release, "\nDate: Tue, 01 Jan 1980 00:00:00 UTC\n") || !strings.Contains(release, fmt.Sprintf(" %x %d Packages\n", sha256.Sum256([]byte(packages)), len(packages))) {
		t.Errorf("Release is\n%s", release)
	}
}

func TestNonPackageFileIsRefused(t *testing.T) {
	for name, content := range map[string]string{"text": "this is not an ar archive, though it is long enough for one", "an empty ar": "!<arch>\n"} {
		t.Run(name, func(t *testing.T) {
			c := openCache(t)
			w, err := c.Create()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(w, content)
			digest, err := w.Commit("")
			if err != nil {
				t.Fatal(err)
			}
			_, err = Repository("repo", []Resolved{{Target: "test-1", Package: lock.Package{HostPackageID: bundle.HostPackageID{Name: "x", Version: "1", Arch: "all"}, Blob: bundle.Blob{SHA256: digest, Size: 1}}}}, c)
			if err == nil || !strings.Contains(err.Error(), "package x 1 for test-1") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// debianSource is a source for the archive of Debian, which this machine may reach by another name.
func debianSource(t *testing.T, c *cache.Cache) *Source {
	t.Helper()
	short.Skip(t, "Debian's archive")
	machine, err := debian.Machine()
	if err != nil {
		t.Fatal(err)
	}
	mirrors, err := mirror.New(map[string]string{
		"http://ftp.debian.org/debian": machine.Main, "http://ftp.debian.org/debian-security": machine.Security,
	})
	if err != nil {
		t.Fatal(err)
	}
	return NewSource(Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{Wait: time.Second}, nil), Mirrors: mirrors})
}

func debianTarget(name, codename string) Target {
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	return Target{
		Name: name, Base: []string{"apt", "systemd", "systemd-sysv", "usr-is-merged"},
		Sources: []Archive{
			{URL: "http://ftp.debian.org/debian", Suites: []string{codename, codename + "-updates"}, Components: []string{"main"}, SignedBy: keyring},
			{URL: "http://ftp.debian.org/debian-security", Suites: []string{codename + "-security"}, Components: []string{"main"}, SignedBy: keyring},
		},
	}
}

// A minimal host of the release that knows only the repository finds the same solution as one that knows the whole archive:
// nothing is missing and nothing is superfluous.
func TestClosureOfRealPackagesIsComplete(t *testing.T) {
	names := wanted()
	for name, codename := range map[string]string{"debian-12": "bookworm", "debian-13": "trixie"} {
		t.Run(name, func(t *testing.T) {
			source := debianSource(t, openCache(t))
			target := debianTarget(name, codename)
			resolved, err := source.Resolve(t.Context(), target, "amd64", names)
			if err != nil {
				t.Fatal(err)
			}
			if len(resolved) < len(names) {
				t.Fatalf("resolved to %s", listed(resolved))
			}
			solver, release, err := source.solvers.get(t.Context(), source.options, target, "amd64", solver.ready)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			host := hostOf(t, unpack(t, source, resolved))
			status := solver.(*aptSolver).status
			var has []string
			for line := range strings.Lines(string(mustRead(t, status))) {
				if name, ok := strings.CutPrefix(line, "Package: "); ok {
					has = append(has, strings.TrimSpace(name))
				}
			}
			if got, want := plan(t, host, status, names), sorted(listed(lacking(resolved, has))); got != want {
				t.Errorf("from the repository apt would install\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// unprivileged is the ID of the user that the test below becomes: nobody, on Debian.
const unprivileged = 65534

func TestResolveNeedsNoRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("already an ordinary user: every other test shows it")
		return
	}
	a := newPublished(t)
	// Only root can read the test's binary and directories; an ordinary user gets copies.
	dir, err := os.MkdirTemp("", "unprivileged-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary := filepath.Join(dir, "hostpkg.test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := fixture.WriteProgram(binary, mustRead(t, self)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keyring.gpg"), mustRead(t, a.keyring), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, binary} {
		if err := os.Chown(path, unprivileged, unprivileged); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestHelperResolvesAsOrdinaryUser$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, ordinaryArchive+"="+a.server.URL)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestHelperResolvesAsOrdinaryUser") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

// ordinaryArchive names the variable with the archive's path for the child of TestResolveNeedsNoRoot.
const ordinaryArchive = "HOSTPKG_TEST_ARCHIVE"

func TestHelperResolvesAsOrdinaryUser(t *testing.T) {
	address := os.Getenv(ordinaryArchive)
	if address == "" {
		return // TestResolveNeedsNoRoot runs this
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{t: t, keyring: filepath.Join(wd, "keyring.gpg")}
	mirrors, err := mirror.New(map[string]string{"http://archive.example.com/test": address})
	if err != nil {
		t.Fatal(err)
	}
	c := openCache(t)
	source := NewSource(Options{Cache: c, Fetcher: fetch.New(c, fetch.Retry{}, nil), Mirrors: mirrors})
	resolved, err := source.Resolve(t.Context(), a.target(), "amd64", []string{"tool"})
	if err != nil || listed(resolved) != "tool=1.0" {
		t.Errorf("got %s, %v", listed(resolved), err)
	}
}
