package console_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/console"
	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/page"
	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// asSealift makes this program a sealift, with the commands that the console runs on bundles.
const asSealift = "CONSOLE_TEST_SEALIFT"

func TestMain(m *testing.M) {
	if os.Getenv(asSealift) == "" {
		os.Exit(m.Run())
	}
	root := func(a *app.App) *cobra.Command {
		cmd := &cobra.Command{Use: "sealift"}
		cmd.AddCommand(archive.Verify(a), archive.Inspect(a))
		return cmd
	}
	app.Main(func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
		return app.Run(ctx, "sealift", root, args, in, out, errOut)
	})
}

// remote is a console on a loopback address. Its sealift is the real one.
type remote struct {
	t       *testing.T
	url, ca string
	options page.Options
	handler atomic.Pointer[http.Handler]
}

// serveConsole serves a console that trusts one key.
func serveConsole(t *testing.T, trusted signature.PublicKey) *remote {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, text, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	program := write("sealift", fmt.Appendf(nil, "#!/bin/sh\n%s=1 exec %s \"$@\"\n", asSealift, self), 0o700)
	r := &remote{t: t, options: page.Options{
		Program: program, Node: "node-1", Now: time.Now, Log: slog.New(slog.DiscardHandler), Host: func(string) bool { return true },
		Settings: command.Settings{BundleKeys: []string{write("release.pub", trusted.Marshal(), 0o600)}},
		Uploads: upload.Options{Spool: filepath.Join(dir, "uploads"), Bundles: filepath.Join(dir, "bundles"),
			Space: func(string) (uint64, error) { return 1 << 40, nil }},
		Tokens: access.Tokens{Dir: filepath.Join(dir, "tokens"), Now: time.Now}, Sessions: access.Sessions{Dir: filepath.Join(dir, "sessions"), Now: time.Now},
		Audit: audit.New(filepath.Join(dir, "audit"), 0), Refused: audit.New(filepath.Join(dir, "refused"), 0),
	}}
	r.start()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { (*r.handler.Load()).ServeHTTP(w, q) }))
	t.Cleanup(s.Close)
	r.url, r.ca = s.URL, write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600)
	return r
}

// start starts the console, or starts it again.
func (r *remote) start() {
	r.t.Helper()
	site, err := page.New(r.t.Context(), r.options)
	if err != nil {
		r.t.Fatal(err)
	}
	h := site.Handler()
	r.handler.Store(&h)
}

// upload runs the command.
func (r *remote) upload(role access.Role, file string) (code int, out, errOut string) {
	r.t.Helper()
	token, _, err := r.options.Tokens.Create("jane", role)
	if err != nil {
		r.t.Fatal(err)
	}
	return run(r.t, "upload", file, "--console", r.url, "--ca-cert", r.ca, "--token", token, "-o", "json")
}

// newBundle makes a bundle, or a package if it is not assembled, with some megabytes of content.
func newBundle(t *testing.T, key *signature.Key, assembled bool) []byte {
	t.Helper()
	content := make([]byte, 3*upload.ChunkSize)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	var packed, out bytes.Buffer
	p := bundle.Package{Name: "app", Version: "1.0.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{bundle.BytesFile("addons/app/1.0.0/Manifest", 0o644, nil), bundle.BytesFile("addons/app/1.0.0/install.sh", 0o755, content)}}
	if _, err := bundle.WritePackage(t.Context(), &packed, p, bundle.WriteOptions{Key: key}); err != nil || !assembled {
		if err != nil {
			t.Fatal(err)
		}
		return packed.Bytes()
	}
	a, err := bundle.NewArchive(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	members, err := bundle.Render(t.Context(), []bundle.File{bundle.BytesFile("install.sh", 0o755, []byte("#!/bin/sh\n"))}, bundle.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.WriteBundle(t.Context(), &out, bundle.Bundle{Packages: []*bundle.Archive{a}, Members: members, Key: key}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestUploadedBundleIsVerified sends real bundles: good, forged, cut, of another site.
func TestUploadedBundleIsVerified(t *testing.T) {
	key, public := fixture.SigningKey(t)
	foreign, _ := fixture.SigningKey(t)
	r := serveConsole(t, public)
	good := newBundle(t, key, true)
	forged := bytes.Clone(good)
	forged[len(forged)/2] ^= 1
	for name, row := range map[string]struct {
		data []byte
		says string
	}{
		"forged.tar.gz":   {forged, "is damaged"},
		"cut.tar.gz":      {good[:len(good)-1000], "refused cut.tar.gz: "},
		"foreign.tar.gz":  {newBundle(t, foreign, true), "not to be trusted"},
		"unsigned.tar.gz": {newBundle(t, nil, true), "not to be trusted"},
		"package.tar.gz":  {newBundle(t, key, false), "it is a package, and an upgrade needs a bundle"},
		"text.tar.gz":     {[]byte("a text"), "is not a bundle"},
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, row.data, 0o600); err != nil {
			t.Fatal(err)
		}
		r.start() // which forgets how many logins there were
		if code, _, said := r.upload(access.Operator, file); code != app.ExitFailed || !strings.Contains(said, row.says) || strings.Contains(said, ".part") {
			t.Errorf("%s: %d %s", name, code, said)
		}
		if left, err := os.ReadDir(r.options.Uploads.Bundles); err != nil || len(left) > 0 {
			t.Errorf("%s: it can be used: %v, %v", name, left, err)
		}
		if left, err := filepath.Glob(filepath.Join(r.options.Uploads.Spool, "*.part")); err != nil || len(left) > 0 {
			t.Errorf("%s: it left %v, %v", name, left, err)
		}
	}
	file := filepath.Join(t.TempDir(), "cluster.tar.gz")
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := r.upload(access.Viewer, file); code != app.ExitFailed || !strings.Contains(said, "The role viewer may not do this") {
		t.Errorf("as a viewer: %d %s", code, said)
	}
	code, out, said := r.upload(access.Operator, file)
	var done upload.Upload
	if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil || done.State != upload.Ready || len(done.Verdict.Digest) != 64 || done.Verdict.Signer == "" {
		t.Fatalf("%d %s %s %v", code, out, said, err)
	}
	if got, err := os.ReadFile(filepath.Join(r.options.Uploads.Bundles, "cluster.tar.gz")); err != nil || !bytes.Equal(got, good) {
		t.Errorf("the console has %d of %d bytes, %v", len(got), len(good), err)
	}
	if code, _, said := r.upload(access.Operator, file); code != app.ExitFailed || !strings.Contains(said, "delete that bundle first") {
		t.Errorf("upload it again: %d %s", code, said)
	}
	if code, _, said := run(t, "upload", file, "--console", r.url, "--ca-cert", r.ca, "--token", "AAAA"); code != app.ExitFailed || !strings.Contains(said, "the token is not valid") {
		t.Errorf("with another token: %d %s", code, said)
	}
}

// TestMistypedUploadLeavesItsToken names a file that is not there, and one with a name that the console does not take.
func TestMistypedUploadLeavesItsToken(t *testing.T) {
	key, public := fixture.SigningKey(t)
	r := serveConsole(t, public)
	token, _, err := r.options.Tokens.Create("jane", access.Operator)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cluster.tar.gz")
	for name, says := range map[string]string{file: "no such file", filepath.Join(t.TempDir(), "my cluster.zip"): "is not a name of a bundle"} {
		if code, _, said := run(t, "upload", name, "--console", r.url, "--ca-cert", r.ca, "--token", token); code != app.ExitFailed || !strings.Contains(said, says) {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
	if code, _, said := run(t, "upload", file, "--console", "http://node-1:6446", "--token", token); code == 0 || !strings.Contains(said, "no such file") {
		t.Errorf("%d %s", code, said)
	}
	if err := os.WriteFile(file, newBundle(t, key, true), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := run(t, "upload", file, "--console", "http://node-1:6446", "--token", token); code != app.ExitUsage || !strings.Contains(said, "not the URL of a console") {
		t.Errorf("%d %s", code, said)
	}
	if code, _, said := run(t, "upload", file, "--console", r.url, "--ca-cert", r.ca, "--token", token); code != 0 {
		t.Errorf("with the same token: %d %s", code, said)
	}
}

// TestLyingConsoleEndsUpload has a console whose answers would make the client divide by zero, or reserve more memory than there is.
func TestLyingConsoleEndsUpload(t *testing.T) {
	key, public := fixture.SigningKey(t)
	r := serveConsole(t, public)
	file := filepath.Join(t.TempDir(), "cluster.tar.gz")
	if err := os.WriteFile(file, newBundle(t, key, true), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{
		`{"state": "receiving", "chunk": 4194304}`,
		`{"state": "receiving", "length": 1000000000000000000, "chunk": 1000000000000000000}`,
		`{"state": "receiving", "length": 10, "offset": 5, "chunk": -1}`,
		`{"state": "receiving", "length": 10, "offset": 5, "chunk": 5, "tail": {"size": -6}}`,
		`{"state": "receiving", "length": 10, "offset": 11, "chunk": 5}`,
	} {
		r.start()
		site := *r.handler.Load()
		var lying http.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/uploads" {
				_, _ = io.WriteString(w, answer)
				return
			}
			site.ServeHTTP(w, q)
		})
		r.handler.Store(&lying)
		if code, _, said := r.upload(access.Operator, file); code != app.ExitFailed || !strings.Contains(said, "the console describes an upload that cannot be") {
			t.Errorf("%s: %d %s", answer, code, said)
		}
	}
}

// TestUploadResumesAfterItWasKilled loses the console for a moment, and then the command is killed.
func TestUploadResumesAfterItWasKilled(t *testing.T) {
	key, public := fixture.SigningKey(t)
	r := serveConsole(t, public)
	file := filepath.Join(t.TempDir(), "cluster.tar.gz")
	if err := os.WriteFile(file, newBundle(t, key, true), 0o600); err != nil {
		t.Fatal(err)
	}
	var chunks atomic.Int32
	site := *r.handler.Load()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	var broken http.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPatch {
			switch chunks.Add(1) {
			case 2:
				http.Error(w, "nobody is here", http.StatusBadGateway)
				return
			case 4:
				kill()
				_, _ = io.Copy(io.Discard, q.Body) // so that the server sees that the client is gone
				<-q.Context().Done()
				return
			}
		}
		site.ServeHTTP(w, q)
	})
	r.handler.Store(&broken)
	token, _, err := r.options.Tokens.Create("jane", access.Operator)
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	if code := app.Run(ctx, "sealift-console", console.Root, []string{"upload", file, "--console", r.url, "--ca-cert", r.ca, "--token", token}, strings.NewReader(""), &out, &said); code != app.ExitFailed || !strings.Contains(said.String(), "waiting for the console: nobody is here") {
		t.Errorf("killed: %d %s", code, said.String())
	}
	chunks.Store(10)
	r.start()
	broken = *r.handler.Load()
	var sent atomic.Int64
	var counted http.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPatch {
			sent.Add(q.ContentLength)
		}
		broken.ServeHTTP(w, q)
	})
	r.handler.Store(&counted)
	if code, _, said := r.upload(access.Operator, file); code != 0 || sent.Load() > 2*upload.ChunkSize {
		t.Errorf("again: %d, %d bytes were sent: %s", code, sent.Load(), said)
	}
}
