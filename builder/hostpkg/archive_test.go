package hostpkg

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
)

// archive is a signed apt repository on loopback, made of packages that dpkg-deb built.
type archive struct {
	t       *testing.T
	dir     string
	keyring string
	gnupg   string
	server  *httptest.Server
	index   bytes.Buffer // Packages
	written int          // number of files so far

	mu       sync.Mutex
	statuses map[string][]int // what each path was answered with
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	// Keys and sockets of gpg need a short path that only the owner may enter.
	gnupg, err := os.MkdirTemp("", "gnupg-")
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{t: t, dir: t.TempDir(), gnupg: gnupg, statuses: make(map[string][]int)}
	t.Cleanup(func() {
		a.gpg("", "gpgconf", "--kill", "all")
		_ = os.RemoveAll(gnupg)
	})
	a.gpg("", "gpg", "--batch", "--passphrase", "", "--quick-generate-key", "archive@example.com", "ed25519", "sign", "never")
	a.keyring = filepath.Join(a.dir, "keyring.gpg")
	a.write("keyring.gpg", a.gpg("", "gpg", "--export"))
	files := http.FileServer(http.Dir(a.dir))
	a.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		files.ServeHTTP(rec, r)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.statuses[r.URL.Path] = append(a.statuses[r.URL.Path], rec.status)
	}))
	t.Cleanup(a.server.Close)
	a.add("base-files", "1.0", "Essential: yes", "Priority: required")
	a.add("dpkg", "1.0", "Priority: required", "Depends: libc6")
	a.add("libc6", "2.36-1")
	a.add("apt", "2.6", "Depends: libc6")
	return a
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (a *archive) gpg(stdin, tool string, args ...string) []byte {
	a.t.Helper()
	cmd := exec.Command(tool, args...)
	cmd.Env = append(os.Environ(), "GNUPGHOME="+a.gnupg)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatalf("%s %v: %v: %s", tool, args, err, stderr.String())
	}
	return out
}

// write writes a file. Each gets its own time, since HTTP distinguishes versions by whole seconds.
func (a *archive) write(name string, data []byte) {
	a.t.Helper()
	a.written++
	path := filepath.Join(a.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		a.t.Fatal(err)
	}
	modified := time.Now().Add(-time.Hour).Add(time.Duration(a.written) * time.Second)
	if err := os.Chtimes(path, modified, modified); err != nil {
		a.t.Fatal(err)
	}
}

// add builds a package; fields are lines of its control file.
func (a *archive) add(name, version string, fields ...string) {
	a.t.Helper()
	root := a.t.TempDir()
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: Test <test@example.com>\n", name, version)
	if len(fields) > 0 {
		control += strings.Join(fields, "\n") + "\n"
	}
	control += "Description: a package of the test\n It does nothing.\n .\n At all.\n"
	if err := os.MkdirAll(filepath.Join(root, "DEBIAN"), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "DEBIAN/control"), []byte(control), 0o644); err != nil {
		a.t.Fatal(err)
	}
	_, plain, found := strings.Cut(version, ":")
	if !found {
		plain = version
	}
	path := fmt.Sprintf("pool/%s_%s_amd64.deb", name, plain)
	a.write(path, nil)
	out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", root, filepath.Join(a.dir, path)).CombinedOutput()
	if err != nil {
		a.t.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	deb, err := os.ReadFile(filepath.Join(a.dir, path))
	if err != nil {
		a.t.Fatal(err)
	}
	fmt.Fprintf(&a.index, "%sFilename: %s\nSize: %d\nSHA256: %x\n\n", control, path, len(deb), sha256.Sum256(deb))
}

// publish writes and signs the indexes.
func (a *archive) publish() {
	a.t.Helper()
	const packages = "main/binary-amd64/Packages"
	a.write("dists/test/"+packages, a.index.Bytes())
	release := fmt.Sprintf("Origin: Test\nSuite: test\nCodename: test\nDate: %s\nArchitectures: amd64\nComponents: main\nSHA256:\n %x %d %s\n",
		time.Now().UTC().Format(time.RFC1123), sha256.Sum256(a.index.Bytes()), a.index.Len(), packages)
	release = strings.Replace(release, " UTC\n", " +0000\n", 1)
	a.write("dists/test/InRelease", a.gpg(release, "gpg", "--batch", "--clearsign"))
}

func (a *archive) target() Target {
	return Target{
		Name: "test-1", Directives: []string{"apt"}, Base: []string{"apt"},
		Sources: []Archive{{URL: "http://archive.example.com/test", Suites: []string{"test"}, Components: []string{"main"}, SignedBy: a.keyring}},
	}
}

// source is a source that reaches the archive through a mirror.
func (a *archive) source(c *cache.Cache) *Source {
	a.t.Helper()
	mirrors, err := mirror.New(map[string]string{"http://archive.example.com/test/": a.server.URL})
	if err != nil {
		a.t.Fatal(err)
	}
	retry := fetch.Retry{Attempts: 2, Wait: time.Millisecond}
	return NewSource(Options{Cache: c, Fetcher: fetch.New(c, retry, nil), Mirrors: mirrors})
}

func (a *archive) resolve(names ...string) ([]Resolved, error) {
	a.t.Helper()
	return a.source(openCache(a.t)).Resolve(a.t.Context(), a.target(), "amd64", names)
}

func openCache(t *testing.T) *cache.Cache {
	t.Helper()
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// listed is a solution as name=version words.
func listed(resolved []Resolved) string {
	var words []string
	for _, r := range resolved {
		words = append(words, r.Name+"="+r.Version)
	}
	return strings.Join(words, " ")
}
