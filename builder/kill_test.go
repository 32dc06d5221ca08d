package builder_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/builder"
)

// countingProxy is a proxy that counts the bytes of bodies that pass.
type countingProxy struct {
	*httptest.Server
	bytes *atomic.Int64
	paid  func(total int64) // called after every piece
}

func newToll(t *testing.T, to string, bytes *atomic.Int64, paid func(total int64)) *countingProxy {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := &countingProxy{bytes: bytes, paid: paid}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.ErrorLog = discardLog()
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { // the proxy panics when its client has disconnected
			gone := recover()
			if err, ok := gone.(error); gone != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
				panic(gone)
			}
		}()
		proxy.ServeHTTP(&counted{ResponseWriter: w, toll: p}, r)
	}))
	p.Listener = shortQueues{p.Listener}
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// shortQueues keeps the send queue small, so that few bytes count as sent but are still on the sender's side.
type shortQueues struct{ net.Listener }

func (l shortQueues) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		err = errors.Join(err, tcp.SetWriteBuffer(64<<10))
	}
	return c, err
}

type counted struct {
	http.ResponseWriter
	toll *countingProxy
}

// nsPerByte limits a connection to 100 MB/s, as a fast network does. At the speed of memory the kernel would buffer many MiB that
// a waiting build has not read yet.
const nsPerByte = 10

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	time.Sleep(time.Duration(n) * nsPerByte)
	c.toll.paid(c.toll.bytes.Add(int64(n)))
	return n, err
}

// killTask names the variable with the task of a child of TestKilledBuildIsResumed.
const killTask = "BUILDER_TEST_KILL"

func TestBuildToBeKilled(t *testing.T) {
	task := strings.Split(os.Getenv(killTask), "\n")
	if len(task) != 4 {
		return // TestAKilledBuild runs this
	}
	w := &world{config: task[0], targets: []string{"debian-12"}}
	b := w.builder(t, cacheAt(t, task[2]), 4)
	r, err := b.Build(t.Context(), task[1], task[3])
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nsha256=%s\n", r.SHA256)
}

// maxRefetched is how many bytes a rerun may fetch twice.
const maxRefetched = 8 << 20

func TestKilledBuildIsResumed(t *testing.T) {
	w := newWorld(t, "debian-12")
	// Two images that share a layer, and an asset, all larger than what may be fetched again.
	w.push(t, "one:1", layer(1, 9<<20), layer(2, 9<<20))
	w.push(t, "two:1", layer(1, 9<<20), layer(3, 9<<20))
	data := make([]byte, 9<<20)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(data)
	w.publish(t, "tool", string(data))
	dir := addOn(t, "demo", "image one registry.example.io/one:1\nimage two registry.example.io/two:1\nasset tool https://files.example.com/tool\n")

	var sent, mark atomic.Int64
	var victim atomic.Pointer[os.Process]
	var once *sync.Once
	paid := func(total int64) {
		if p := victim.Load(); p != nil && total >= mark.Load() {
			once.Do(func() { _ = p.Kill() })
		}
	}
	registry := newToll(t, "http://"+w.registry, &sent, paid)
	files := newToll(t, w.fileServer, &sent, paid)
	settings := strings.NewReplacer(w.registry, strings.TrimPrefix(registry.URL, "http://"), w.fileServer, files.URL).Replace(readFile(t, w.config))
	writeFile(t, w.config, settings)

	run := func(t *testing.T, cache, out string, kill bool) (sha256 string, killed bool) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBuildToBeKilled$")
		cmd.Env = append(os.Environ(), killTask+"="+strings.Join([]string{w.config, dir, cache, out}, "\n"))
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if kill {
			once = new(sync.Once)
			victim.Store(cmd.Process)
		}
		err := cmd.Wait()
		victim.Store(nil)
		if err != nil && !kill {
			t.Fatalf("%v\n%s", err, said.String())
		}
		_, rest, _ := strings.Cut(said.String(), "sha256=")
		sha256, _, _ = strings.Cut(rest, "\n")
		return sha256, err != nil
	}

	want, _ := run(t, t.TempDir(), t.TempDir(), false)
	total := sent.Load()
	if want == "" || total < 36<<20 {
		t.Fatalf("built %q out of %d bytes", want, total)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 10 {
		at := random.Int64N(total)
		if i == 9 {
			at = total - 1 // everything has been sent
		}
		t.Run(fmt.Sprintf("%d after %d KiB", i, at>>10), func(t *testing.T) {
			cache, out := t.TempDir(), t.TempDir()
			sent.Store(0)
			mark.Store(at)
			if _, killed := run(t, cache, out, true); !killed {
				t.Fatal("the build was not killed")
			}
			// A build that is killed while it writes leaves a temporary file, which the next build removes. The package's final name
			// holds the complete package or nothing.
			if data, err := os.ReadFile(filepath.Join(out, "demo-1.0.tar.gz")); err == nil {
				if sum := fmt.Sprintf("%x", sha256.Sum256(data)); sum != want {
					t.Errorf("the killed build left a package with the digest %s, not %s", sum, want)
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			got, _ := run(t, cache, out, false)
			if got != want {
				t.Errorf("after the kill %s was built, not %s", got, want)
			}
			if twice := sent.Load() - total; twice > maxRefetched {
				t.Errorf("%d KiB were fetched again, at most %d may", twice>>10, maxRefetched>>10)
			} else {
				t.Logf("%d KiB were fetched again", twice>>10)
			}
			if left, err := filepath.Glob(filepath.Join(out, ".*")); err != nil || len(left) > 0 {
				t.Errorf("temporary files are left: %v, %v", left, err)
			}
		})
	}
}

func TestConcurrentBuildsShareTransfers(t *testing.T) {
	w := newWorld(t, "debian-12")
	w.push(t, "one:1", layer(1, 6<<20), layer(2, 5<<20))
	dir := addOn(t, "demo", "image one registry.example.io/one:1\n")
	var sent atomic.Int64
	registry := newToll(t, "http://"+w.registry, &sent, func(int64) {})
	writeFile(t, w.config, strings.ReplaceAll(readFile(t, w.config), w.registry, strings.TrimPrefix(registry.URL, "http://")))
	shared := t.TempDir()
	results := make(chan builder.Result, 3)
	for range cap(results) {
		b := w.builder(t, cacheAt(t, shared), 4) // with a separate cache, and so separate locks, as a process has
		out := t.TempDir()
		go func() {
			r, err := b.Build(t.Context(), dir, out)
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	first := <-results
	for range cap(results) - 1 {
		if r := <-results; r.SHA256 != first.SHA256 {
			t.Errorf("one built %s, another %s", first.SHA256, r.SHA256)
		}
	}
	if n := sent.Load(); n > 11<<20+64<<10 {
		t.Errorf("%d bytes were sent for layers of %d", n, 11<<20)
	}
}
