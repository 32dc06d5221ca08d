package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/build"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// writePackage makes a package with an incompressible file of the given size.
func writePackage(t *testing.T, dir, name string, size int) string {
	t.Helper()
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	copy(data, "\x1f\x8b\x08") // compressed already, so that it is stored
	f, err := os.Create(filepath.Join(dir, name+"-1.0.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := bundle.Package{
		Name: name, Version: "1.0", Platforms: []string{"linux/amd64"},
		Files: []bundle.File{bundle.BytesFile("addons/"+name+"/1.0/assets/file", 0o644, data)},
	}
	if _, err := bundle.WritePackage(t.Context(), f, p, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// sealift starts this program as a process, and returns the function that waits for its end.
func sealift(t *testing.T, out io.Writer, args ...string) (process *os.Process, wait func() error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = append([]string{"sealift"}, args...) // by this name TestMain knows it
	cmd.Stdout, cmd.Stderr = out, out
	wait, err = child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process, wait
}

func TestKilledPublishIsResumed(t *testing.T) {
	const kills, most = 10, 8 << 20 // an interruption may cost this many bytes
	server := objects.Start(t)
	line := server.Line(t)
	dir := t.TempDir()
	archive := writePackage(t, dir, "large", 48<<20)
	info, err := os.Stat(archive)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"publish", archive, "--store", line.URL("dist"), "--cache", filepath.Join(dir, "cache"), "-o", "json"}
	var killed int
	for range kills {
		before, target := line.Sent(), rand.Int64N(7<<20)
		process, wait := sealift(t, io.Discard, args...)
		ended := make(chan struct{})
		go func() {
			_ = wait() // killed or not, the content of the store decides
			close(ended)
		}()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			case <-time.After(time.Millisecond):
				if line.Sent()-before >= target {
					killed++
					_ = process.Kill()
					<-ended
					running = false
				}
			}
		}
		if lost := line.Sent() - info.Size(); lost > int64(killed)*most {
			t.Errorf("after %d kills %d bytes have been sent of %d", killed, line.Sent(), info.Size())
		}
	}
	before := line.Sent()
	var out bytes.Buffer
	_, wait := sealift(t, &out, args...)
	if err := wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	last := line.Sent() - before
	t.Logf("%d kills, %d bytes sent for %d, %d of them at last", killed, line.Sent(), info.Size(), last)
	if again := line.Sent() - info.Size(); again > int64(killed)*most {
		t.Errorf("%d bytes were sent again for %d kills", again, killed)
	}
	s, err := store.Open(server.URL("dist"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Get(t.Context(), "large-1.0.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	a, err := bundle.NewArchive(o, o.Size())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConcurrentPublishesAreBothListed(t *testing.T) {
	server := objects.Start(t)
	dir := t.TempDir()
	var group sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		archive := writePackage(t, dir, name, 6<<20)
		group.Go(func() {
			var out bytes.Buffer
			args := []string{"publish", archive, "--store", server.URL(""), "--cache", filepath.Join(dir, "cache"), "--layout", "kurl", "--release", "v1"}
			_, wait := sealift(t, &out, args...)
			if err := wait(); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
	group.Wait()
	data, err := os.ReadFile(filepath.Join(server.Dir, "dist", "v1", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index release.Index
	if err := json.Unmarshal(data, &index); err != nil || len(index.Packages) != 2 || index.Packages[0].Name != "one" || index.Packages[1].Name != "two" {
		t.Errorf("the index is %s, %v", data, err)
	}
}

func TestPublishReportsUploads(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	archive := writePackage(t, dir, "small", 100)
	command := func(args ...string) (int, string, string) {
		var out, errOut bytes.Buffer
		code := run(context.Background(), append([]string{"publish", "--cache", filepath.Join(dir, "cache")}, args...), nil, &out, &errOut)
		return code, out.String(), errOut.String()
	}
	for _, want := range []string{"published small-1.0.tar.gz: ", "present small-1.0.tar.gz: "} {
		if code, out, errOut := command(archive, "--store", to); code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("exit %d, %q, %q; want %q", code, out, errOut, want)
		}
	}
	code, out, _ := command(archive, "--store", to, "-o", "json")
	var told []build.Published
	if err := json.Unmarshal([]byte(out), &told); err != nil || code != 0 || len(told) != 1 || told[0].Status != release.Present || told[0].Sent != 0 {
		t.Errorf("exit %d, %s, %v", code, out, err)
	}
	for i, args := range [][]string{{archive}, {archive, archive, "--store", to}, {archive, "--store", to, "--release", "v1"}, {archive, "--store", to, "--layout", "kurl"}} {
		if code, _, errOut := command(args...); code != app.ExitUsage {
			t.Errorf("%d: exit %d, %s", i, code, errOut)
		}
	}
	broken := filepath.Join(dir, "broken.tar.gz")
	if err := os.WriteFile(broken, fmt.Append(nil, "no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := command(broken, "--store", to); code != app.ExitFailed || !strings.Contains(errOut, "not an archive made by sealift") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

func TestBundleIsSameFromEveryStore(t *testing.T) {
	server := objects.Start(t)
	line := server.Line(t)
	dir, folder := t.TempDir(), t.TempDir()
	command := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &out); code != 0 {
			t.Fatalf("%q: exit %d\n%s", args, code, out.String())
		}
	}
	for _, name := range []string{"one", "two"} {
		archive := writePackage(t, dir, name, 3<<20)
		command("publish", archive, "--store", folder, "--cache", filepath.Join(dir, "cache"))
		command("publish", archive, "--store", server.URL("dist"), "--cache", filepath.Join(dir, "cache"))
	}
	installer, node := filepath.Join(dir, "installer.yaml"), filepath.Join(dir, "node")
	for name, text := range map[string]string{
		installer: "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: test}\nspec:\n  one: {version: '1.0'}\n  two: {version: '1.0'}\n",
		node:      "#!/bin/sh\n",
	} {
		if err := fixture.WriteProgram(name, text); err != nil {
			t.Fatal(err)
		}
	}
	var requests atomic.Int64
	line.Plan(func(*http.Request) objects.Fault {
		switch requests.Add(1) % 4 {
		case 1:
			return objects.Fault{CutAnswer: objects.After(100_000)}
		case 3:
			return objects.Fault{Status: http.StatusServiceUnavailable}
		}
		return objects.Fault{}
	})
	web := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(server.Dir, "dist"))))
	t.Cleanup(web.Close)
	var first []byte
	for name, location := range map[string]string{"a folder": folder, "a bucket behind a bad line": line.URL("dist"), "a web server": web.URL} {
		to := filepath.Join(t.TempDir(), "bundle.tar.gz")
		command("bundle", "-f", installer, "--store", location, "--out", to, "--sealift", node, "--platform", "linux/amd64")
		data, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(data, first) {
			t.Errorf("another bundle from %s", name)
		}
	}
}
