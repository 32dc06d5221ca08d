package share_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
)

const token = "abcdef.0123456789abcdef"

// certificateKey is held by control planes.
const certificateKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

type blob struct{ *bytes.Reader }

func (blob) Close() error { return nil }

// node is a control plane that shares a bundle, unpacked in its root except one file, which is a blob.
type node struct {
	root, address, caHash string
	pki                   string // folder with the CA
	blobs                 map[string][]byte
	script                *share.Script
	scriptText            func() ([]byte, error) // that is served: of script, unless a test sets another one
	undo                  func(node string) (share.Undo, error)
	log                   journal
}

// journal is the log of a node.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// take returns the log since the last call.
func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

func serve(t *testing.T) *node {
	t.Helper()
	return serveBundle(t, packed(t, nil), "127.0.0.1")
}

func serveBundle(t *testing.T, archive *bundle.Archive, address string) *node {
	t.Helper()
	n := &node{root: t.TempDir(), blobs: map[string][]byte{}}
	root, err := os.OpenRoot(n.root)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	index, sig := archive.Raw()
	for name, data := range map[string][]byte{bundle.IndexName: index, bundle.IndexName + ".sig": sig} {
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(n.root, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const inRuntime = "addons/a/1/images/blobs/sha256/layer"
	if err := archive.Extract(t.Context(), root, func(e bundle.Entry) bool { return e.Path != inRuntime }); err != nil {
		t.Fatal(err)
	}
	e, _ := archive.Entry(inRuntime)
	if n.blobs[e.SHA256], err = archive.ReadFile(inRuntime, 1<<20); err != nil {
		t.Fatal(err)
	}
	n.pki = fixture.CA(t)
	authority, err := identity.ReadAuthority(n.pki)
	if err != nil {
		t.Fatal(err)
	}
	n.caHash = identity.CAHash(authority.Certificate)
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	n.address = l.Addr().String()
	binary := filepath.Join(n.root, "sealift")
	if err := fixture.WriteProgram(binary, "#!/bin/sh\nread -r line\necho \"$@\" with \"$line\" and $SEALIFT_TOKEN $SEALIFT_CERTIFICATE_KEY\necho \"again: $SEALIFT_RESUME\"\n"); err != nil {
		t.Fatal(err)
	}
	programs := share.Programs{Platform: "linux/amd64", Binary: binary, Root: n.root}
	n.script = &share.Script{CA: authority.Certificate, Address: n.address, Programs: programs}
	n.scriptText = n.script.Text
	s := &share.Server{Root: n.root, Programs: programs, Script: func() ([]byte, error) { return n.scriptText() }, Log: slog.New(slog.NewJSONHandler(&n.log, nil)),
		Blobs: func(_ context.Context, sha256 string) (peer.Blob, error) {
			if data, ok := n.blobs[sha256]; ok {
				return blob{bytes.NewReader(data)}, nil
			}
			return nil, fs.ErrNotExist
		},
		Images: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		Peer:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		Authorize: func(_ context.Context, got string) error {
			if got != token {
				return share.ErrToken
			}
			return nil
		},
		Node: func(_ context.Context, name string, _ time.Time) error {
			if name != "host-1" && name != "host-3" {
				return share.ErrMember
			}
			return nil
		},
		Invited: func(_ context.Context, key string) error {
			if key != certificateKey {
				return share.ErrCertificateKey
			}
			return nil
		},
		Undo: func(name string) (share.Undo, error) {
			if n.undo == nil {
				return share.Undo{}, fs.ErrNotExist
			}
			return n.undo(name)
		},
		Cluster: func(_ context.Context, may func(identity.Right) bool) (share.Cluster, error) {
			c := share.Cluster{Name: "test", Installer: map[bool]string{true: "whole", false: "part"}[may(identity.ReadInstaller)]}
			if may(identity.ReadKeys) {
				c.Encryption = "keys"
			}
			if may(identity.ReadCAKeys) {
				c.Rotation = "private keys"
			}
			return c, nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- share.Serve(ctx, share.Mixed(l, authority.Server("host-0", address)), s.Handler()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n
}

// packed is a bundle with one package, signed if there is a key.
func packed(t *testing.T, key *signature.Key) *bundle.Archive {
	t.Helper()
	write := func(w func(io.Writer) error) *bundle.Archive {
		var buf bytes.Buffer
		if err := w(&buf); err != nil {
			t.Fatal(err)
		}
		a, err := bundle.NewArchive(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	file := func(name, text string) bundle.File { return bundle.BytesFile("addons/a/1/"+name, 0o644, []byte(text)) }
	one := write(func(w io.Writer) error {
		_, err := bundle.WritePackage(t.Context(), w, bundle.Package{Name: "a", Version: "1", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
			file("Manifest", ""), file("install.sh", "a() { :; }\n"), file("images/blobs/sha256/layer", strings.Repeat("layer ", 1000)),
		}}, bundle.WriteOptions{})
		return err
	})
	members, err := bundle.Render(t.Context(), []bundle.File{bundle.BytesFile(bundle.InstallerName, 0o644, []byte("password: hunter2\n"))}, bundle.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return write(func(w io.Writer) error {
		_, err := bundle.WriteBundle(t.Context(), w, bundle.Bundle{Members: members, Packages: []*bundle.Archive{one}, Key: key})
		return err
	})
}

func (n *node) client(t *testing.T, token, caHash string) *share.Client {
	t.Helper()
	c, err := share.NewClient(n.address, token, caHash)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHostVerifiesBundleSigner(t *testing.T) {
	var keys [2]*signature.Key
	var public [2]signature.PublicKey
	for i := range keys {
		var err error
		if keys[i], err = signature.Generate(); err != nil {
			t.Fatal(err)
		}
		if public[i], err = keys[i].Public(); err != nil {
			t.Fatal(err)
		}
	}
	n := serveBundle(t, packed(t, keys[0]), "127.0.0.1")
	archive, err := n.client(t, token, n.caHash).Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if trust, err := archive.VerifySignature(public[0]); err != nil || trust.Signer != public[0].Fingerprint() {
		t.Errorf("by the signer's key: %+v, %v", trust, err)
	}
	if _, err := archive.VerifySignature(public[1]); !errors.Is(err, bundle.ErrUntrusted) {
		t.Errorf("by another key: %v", err)
	}
}

func TestHostFetchesBundleFromNode(t *testing.T) {
	n := serve(t)
	c := n.client(t, token, n.caHash)
	c.CertificateKey = certificateKey // for all of it, the Installer too
	if cluster, err := c.Cluster(t.Context()); err != nil || cluster.Name != "test" {
		t.Fatalf("%v, %v", cluster, err)
	}
	a, err := c.Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Errorf("what came is not what the index says: %v", err)
	}
	part := make([]byte, 5)
	if err := a.ReadAt("addons/a/1/images/blobs/sha256/layer", part, 6); err != nil || string(part) != "layer" {
		t.Errorf("a part is %q, %v", part, err)
	}
	if _, err := a.Verdict(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a verdict that is not there: %v", err)
	}
	kept := verdict.Signed{Document: []byte("{}\n"), Signature: []byte("c2ln\n")}
	if err := kept.Write(filepath.Join(n.root, verdict.Name)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Verdict(); err != nil || !reflect.DeepEqual(got, kept) {
		t.Errorf("the verdict is %q, %v", got, err)
	}
}

func TestTamperedBlobIsNamed(t *testing.T) {
	n := serve(t)
	for _, data := range n.blobs {
		data[7] ^= 1
	}
	a, err := n.client(t, token, n.caHash).Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var damaged *bundle.DigestError
	if _, err := a.ReadFile("addons/a/1/images/blobs/sha256/layer", 1<<20); !errors.As(err, &damaged) {
		t.Errorf("got %v", err)
	}
}

func TestMissingBlobsAreReportedFirst(t *testing.T) {
	n := serve(t)
	c := n.client(t, token, n.caHash)
	a, err := c.Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range a.Index.Entries {
		all = append(all, e.SHA256)
	}
	if missing, err := c.Missing(t.Context(), all); err != nil || len(missing) != 0 {
		t.Fatalf("%v, %v", missing, err)
	}
	e, _ := a.Entry("addons/a/1/images/blobs/sha256/layer")
	delete(n.blobs, e.SHA256)
	if missing, err := c.Missing(t.Context(), all); err != nil || !slices.Equal(missing, []string{e.SHA256}) {
		t.Errorf("%v, %v", missing, err)
	}
	if _, err := a.ReadFile(e.Path, 1<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestUnauthenticatedHostsAreRefused(t *testing.T) {
	n := serve(t)
	if _, err := n.client(t, "abcdef.0000000000000000", n.caHash).Archive(t.Context()); !errors.Is(err, share.ErrToken) {
		t.Errorf("wrong token: %v", err)
	}
	var untrusted *share.CAError
	if _, err := n.client(t, token, "sha256:"+strings.Repeat("0", 64)).Cluster(t.Context()); !errors.As(err, &untrusted) {
		t.Errorf("wrong CA: %v", err)
	}
	if _, err := share.NewClient(n.address, token, "sha256:0"); err == nil {
		t.Error("half a hash is taken")
	}
	conn, err := net.Dial("tcp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/cluster HTTP/1.0\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "401") {
		t.Errorf("without TLS: %s, %v", answer, err)
	}
}

// TestPrintedCommandRunsVerifiedScript runs the command up to sealift, with only bash, and with an installed curl.
func TestPrintedCommandRunsVerifiedScript(t *testing.T) {
	short.Root(t, "a join")
	for _, address := range []string{"127.0.0.1", "::1"} {
		t.Run(address, func(t *testing.T) { startsWhatItChecked(t, serveBundle(t, packed(t, nil), address)) })
	}
}

func startsWhatItChecked(t *testing.T, n *node) {
	key := strings.Repeat("0f", 32)
	command, err := n.script.Command(token, key)
	if err != nil {
		t.Fatal(err)
	}
	run := func(command string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs none /var/lib && cd /var/lib && "+command)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	begin := "join --server " + n.address + " --ca-hash " + n.caHash
	for words, want := range map[string]string{
		"control-plane": " control-plane with " + token + " " + key + " and\nagain: the command of 'sealift token create --control-plane'\n",
		"--token " + token + " --cert-key=" + key + " --control-plane --private-address 10.0.0.4": " --control-plane --private-address 10.0.0.4 with " + token + " " + key +
			" and " + token + " " + key + "\nagain: the command of 'sealift token create --control-plane', and behind it: --private-address 10.0.0.4\n",
	} {
		if out, err := run(strings.TrimSuffix(command, "control-plane") + words); err != nil || !strings.Contains(out, begin+want) {
			t.Errorf("%v\n%s\nwant %s", err, out, begin+want)
		}
	}
	if err := fixture.WriteProgram(filepath.Join(n.root, "sealift"), "#!/bin/sh\necho evil\n"); err != nil {
		t.Fatal(err)
	}
	if out, err := run(command); err == nil || strings.Contains(out, "evil") || !strings.Contains(out, "sent another one than this command was made for") {
		t.Errorf("another sealift was started: %v\n%s", err, out)
	}
}

func TestWorkerGetsNoSecrets(t *testing.T) {
	n := serve(t)
	for name, row := range map[string]struct {
		key, installer string
		err            error
	}{
		"a worker":                 {"", "part", nil},
		"a control plane":          {certificateKey, "whole", nil},
		"a worker that pretends":   {strings.Repeat("0", 64), "", share.ErrCertificateKey},
		"one with another kind of": {"key", "", share.ErrCertificateKey},
	} {
		c := n.client(t, token, n.caHash)
		c.CertificateKey = row.key
		cluster, err := c.Cluster(t.Context())
		if !errors.Is(err, row.err) || cluster.Installer != row.installer {
			t.Errorf("%s: got %q, %v", name, cluster.Installer, err)
		}
		archive, err := c.Archive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := archive.ReadFile(bundle.InstallerName, 1<<10)
		if may := row.key == certificateKey; may != (err == nil) || !may && len(text) > 0 {
			t.Errorf("%s: the Installer of the bundle is %q, %v", name, text, err)
		}
	}
}

// cutServer forwards connections to a node, and cuts responses after some bytes.
func cutServer(t *testing.T, n *node, after int64) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", n.address)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client) }()
				_, _ = io.CopyN(client, server, after)
			}()
		}
	}()
	return l.Addr().String()
}

// withoutCurl is a PATH with all programs of this machine but curl.
func withoutCurl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, from := range []string{"/usr/sbin", "/usr/bin"} {
		programs, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range programs {
			if p.Name() != "curl" {
				_ = os.Symlink(filepath.Join(from, p.Name()), filepath.Join(dir, p.Name())) // some are in both
			}
		}
	}
	return dir
}

func TestTruncatedDownloadIsNamed(t *testing.T) {
	short.Root(t, "a join")
	n := serve(t)
	text, err := n.script.Text()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		after int64
		want  string
	}{
		"before the script": {10, "did not send it whole; run this command again"},
		"in the script":     {int64(len(text)) / 2, "did not send it whole; run this command again"},
		"in sealift":        {int64(len(text)) + 1<<10, "bytes of sealift arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			large := append([]byte("#!/bin/sh\necho evil\n"), make([]byte, 1<<20)...)
			if err := fixture.WriteProgram(filepath.Join(n.root, "sealift"), large); err != nil {
				t.Fatal(err)
			}
			script := &share.Script{CA: n.script.CA, Address: cutServer(t, n, row.after), Programs: n.script.Programs}
			n.scriptText = script.Text
			command, err := script.Command(token, "")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs none /var/lib && cd /var/lib && "+command)
			cmd.Env = append(os.Environ(), "PATH="+withoutCurl(t))
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), row.want) || strings.Contains(string(out), "another") || strings.Contains(string(out), "evil") {
				t.Errorf("%v\n%s\nwant %s", err, out, row.want)
			}
		})
	}
}

// TestHostWithoutRoomForSealiftIsNamed has file systems for /var/lib/sealift on which sealift cannot be kept or run.
func TestHostWithoutRoomForSealiftIsNamed(t *testing.T) {
	short.Root(t, "a join")
	n := serve(t)
	if err := fixture.WriteProgram(filepath.Join(n.root, "sealift"), append([]byte("#!/bin/sh\necho started\n"), make([]byte, 1<<20)...)); err != nil {
		t.Fatal(err)
	}
	command, err := n.script.Command(token, "")
	if err != nil {
		t.Fatal(err)
	}
	const full = "no space left for /var/lib/sealift, which is on /var/lib (none): sealift needs 2 MB there, and 0 MB are free"
	for name, row := range map[string]struct{ mount, path, want string }{
		"full":               {"-o size=64k", os.Getenv("PATH"), full},
		"full, without curl": {"-o size=64k", withoutCurl(t), full},
		"read-only":          {"-o ro", os.Getenv("PATH"), "nothing can be written below /var/lib/sealift"},
		"noexec":             {"-o noexec", os.Getenv("PATH"), "no program can be run from /var/lib/sealift"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs "+row.mount+" none /var/lib && cd /var/lib && "+command)
			cmd.Env = append(os.Environ(), "PATH="+row.path)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), row.want) || strings.Contains(string(out), "started") {
				t.Errorf("%v\n%s\nwant exit 3 and %s", err, out, row.want)
			}
		})
	}
}

// TestScriptOfAnotherUserIsNotRun uses a join.sh in the current folder, as another user may put it there at any moment.
func TestScriptOfAnotherUserIsNotRun(t *testing.T) {
	short.Root(t, "a join")
	n := serve(t)
	command, err := n.script.Command(token, "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs none /var/lib && mkdir /var/lib/user && cd /var/lib/user && echo 'echo evil' >join.sh && ln -s /etc/passwd other && "+
		command+" && cat join.sh && ls /var/lib/user")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "echo evil\njoin.sh\nother\n") || !strings.Contains(string(out), "join --server") || strings.HasPrefix(string(out), "evil") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestEmptyRangeIsRefused(t *testing.T) {
	n := serve(t)
	s := &share.Server{Root: n.root, Programs: n.script.Programs, Log: slog.New(slog.DiscardHandler)}
	r := httptest.NewRequest(http.MethodGet, "/sealift", nil)
	r.Header.Set("Range", "bytes=-0")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusRequestedRangeNotSatisfiable || !strings.HasPrefix(w.Header().Get("Content-Range"), "bytes */") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestScriptTakesProgramOfItsHost has hosts of two platforms fetch their sealift from a node of one of them.
func TestScriptTakesProgramOfItsHost(t *testing.T) {
	short.Root(t, "a join")
	n := serve(t)
	other := filepath.Join(n.root, bundle.ProgramPath(bundle.BinaryName, "linux/arm64"))
	if err := os.MkdirAll(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	alone, err := n.script.Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := fixture.WriteProgram(other, "#!/bin/sh\necho the other one: \"$@\"\n"); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ machine, want string }{
		"the node's own platform": {"x86_64", "join --server"},
		"another platform":        {"aarch64", "the other one: join --server"},
		"an unknown one":          {"riscv64", "this host is Linux riscv64, the cluster's bundle is for linux/amd64, linux/arm64"},
	} {
		for tools, path := range map[string]string{"curl": os.Getenv("PATH"), "bash alone": withoutCurl(t)} {
			t.Run(name+", "+tools, func(t *testing.T) {
				command, err := n.script.Command(token, "")
				if err != nil {
					t.Fatal(err)
				}
				fake := t.TempDir()
				if err := fixture.WriteProgram(filepath.Join(fake, "uname"), "#!/bin/sh\necho Linux "+row.machine+"\n"); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs none /var/lib && cd /var/lib && "+command)
				cmd.Env = append(os.Environ(), "PATH="+fake+":"+path)
				out, _ := cmd.CombinedOutput()
				if !strings.Contains(string(out), row.want) || strings.Contains(string(out), "the other one") != (row.machine == "aarch64") {
					t.Errorf("%s\nwant %s", out, row.want)
				}
			})
		}
	}
	if strings.Contains(string(alone), "aarch64") {
		t.Error("a node with one program offers two")
	}
}
