package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/testing/short"
)

// user is a local user who is not root.
const user = 4242

// host has a folder of root with a folder of a user in it, and a secret of root beside it.
type host struct {
	t    *testing.T
	root string
}

func newHost(t *testing.T) host {
	t.Helper()
	short.AsRoot(t, "a folder of another user")
	h := host{t, t.TempDir()}
	h.folder("own")
	h.write("etc/secret", "secret")
	h.folder("app/sub")
	h.give("app")
	h.give("app/sub")
	return h
}

func (h host) path(name string) string { return filepath.Join(h.root, name) }

func (h host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h host) folder(name string) { h.t.Helper(); h.must(os.MkdirAll(h.path(name), 0o755)) }

func (h host) write(name, text string) {
	h.t.Helper()
	h.folder(filepath.Dir(name))
	h.must(os.WriteFile(h.path(name), []byte(text), 0o600))
}

func (h host) give(name string) { h.t.Helper(); h.must(os.Lchown(h.path(name), user, user)) }

func (h host) link(target, name string) {
	h.t.Helper()
	h.must(os.RemoveAll(h.path(name)))
	h.must(os.Symlink(target, h.path(name)))
}

// untouched checks that /etc of the host has its secret and nothing else.
func (h host) untouched() {
	h.t.Helper()
	entries, err := os.ReadDir(h.path("etc"))
	h.must(err)
	text, err := os.ReadFile(h.path("etc/secret"))
	h.must(err)
	info, err := os.Lstat(h.path("etc/secret"))
	h.must(err)
	if uid, _ := files.Owner(info); len(entries) != 1 || string(text) != "secret" || uid != 0 || info.Mode() != 0o600 {
		h.t.Errorf("etc has %v, its secret %q of %d with %v", entries, text, uid, info.Mode())
	}
}

// operations are all functions that write to a path.
func operations(content string) map[string]func(path string) error {
	return map[string]func(string) error{
		"write":     func(p string) error { return files.Write(p, []byte(content)) },
		"replace":   func(p string) error { return files.Replace(p, []byte(content)) },
		"copy":      func(p string) error { return files.Copy(p, 0o644, "/etc/passwd") },
		"link":      func(p string) error { return files.Symlink("/", p) },
		"folder":    func(p string) error { return files.MkdirAll(p, 0o755) },
		"chmod":     func(p string) error { return files.Chmod(p, 0o666) },
		"remove":    files.Remove,
		"removeall": files.RemoveAll,
		"rename":    func(p string) error { return files.Rename(p, p+"-new") },
	}
}

func TestLinkOfUserIsNotFollowed(t *testing.T) {
	for name, do := range operations("evil") {
		for _, link := range []string{"app/sub", "app"} { // root created the second one, in a folder of root that others may write to
			t.Run(name+" "+link, func(t *testing.T) {
				h := newHost(t)
				h.link(h.path("etc"), link)
				if link == "app" {
					h.must(os.Chmod(h.root, 0o777))
				}
				target := "secret"
				if name == "folder" || name == "link" {
					target = "new"
				}
				if err := do(h.path(link + "/" + target)); !errors.Is(err, files.ErrUnsafe) {
					t.Errorf("got %v", err)
				}
				h.untouched()
			})
		}
	}
}

func TestLinkOfUserAtEndIsNotFollowed(t *testing.T) {
	for name, do := range operations("evil") {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.link(h.path("etc/secret"), "app/f")
			_ = do(h.path("app/f")) // it may replace or remove the link
			h.untouched()
		})
	}
}

func TestLinkOfRootIsFollowed(t *testing.T) {
	h := newHost(t)
	h.folder("data")
	h.link("../root-made/../data", "own/kubelet")
	h.folder("root-made")
	h.must(files.MkdirAll(h.path("own/kubelet/pki"), 0o700))
	h.must(files.WriteMode(h.path("own/kubelet/pki/key"), 0o600, []byte("key")))
	if text, err := os.ReadFile(h.path("data/pki/key")); err != nil || string(text) != "key" {
		t.Errorf("%q, %v", text, err)
	}
	h.link(h.path("data/config"), "own/config")
	if to, err := files.Resolve(h.path("own/config")); err != nil || to != h.path("data/config") {
		t.Errorf("resolved to %q, %v", to, err)
	}
	h.write("data/config", "old")
	h.must(files.Replace(h.path("own/config"), []byte("new")))
	if text, err := os.ReadFile(h.path("data/config")); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	h.link("loop", "own/loop")
	if _, err := files.Resolve(h.path("own/loop/x")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
}

func TestLinkInSharedFolderIsFollowedIfRootMadeIt(t *testing.T) {
	h := newHost(t)
	h.folder("tmp")
	h.must(os.Chmod(h.path("tmp"), fs.ModeSticky|0o777))
	h.link(h.path("etc"), "tmp/root")
	if _, err := files.OpenFolder(h.path("tmp/root")); err != nil {
		t.Error(err)
	}
	h.link(h.path("etc"), "tmp/user")
	h.give("tmp/user")
	if _, err := files.OpenFolder(h.path("tmp/user")); !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("got %v", err)
	}
}

func TestForeignFolderIsNotTrusted(t *testing.T) {
	h := newHost(t)
	for path, own := range map[string]bool{"own": true, "own/not/there": true, "app": false, "app/not/there": false, "app/rooted": false} {
		if path == "app/rooted" {
			h.folder(path)
		}
		if err := files.CheckOwn(h.path(path)); (err == nil) != own {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestPipeDoesNotBlock has pipes instead of a file and of a folder.
func TestPipeDoesNotBlock(t *testing.T) {
	h := newHost(t)
	for _, name := range []string{"app/pipe", "app/sub/pipe"} {
		h.must(unix.Mkfifo(h.path(name), 0o666))
	}
	done := make(chan error, 1)
	go func() {
		_, under := files.OpenFolder(h.path("app/pipe/x"))
		done <- errors.Join(under, files.Chmod(h.path("app/sub/pipe"), 0o600), files.Write(h.path("app/pipe"), nil))
	}()
	select {
	case err := <-done:
		if err == nil || strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("not all of them failed: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("waits for a pipe")
	}
}

// TestSwappedFolderRedirectsNoWrite has the folder of a user become a link, and a pipe, and a folder again all the time.
func TestSwappedFolderRedirectsNoWrite(t *testing.T) {
	h := newHost(t)
	h.folder("app/real")
	h.give("app/real")
	h.link(h.path("etc"), "app/link")
	h.must(unix.Mkfifo(h.path("app/pipe"), 0o666))
	var stop atomic.Bool
	swapped := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			with := []string{"app/link", "app/pipe", "app/real"}[n%3]
			_ = unix.Renameat2(unix.AT_FDCWD, h.path("app/sub"), unix.AT_FDCWD, h.path(with), unix.RENAME_EXCHANGE)
		}
		swapped <- n
	}()
	ops, done, refused := operations("evil"), 0, 0
	for range 1000 {
		for _, name := range []string{"secret", "new"} {
			for _, do := range ops {
				if err := do(h.path("app/sub/" + name)); err == nil {
					done++
				} else {
					refused++
				}
			}
		}
	}
	stop.Store(true)
	t.Logf("%d operations done, %d refused, %d swaps", done, refused, <-swapped)
	if done == 0 || refused == 0 {
		t.Error("the folder was not swapped")
	}
	h.untouched()
}

func TestSymlinkGetsItsOwner(t *testing.T) {
	h := newHost(t)
	f, err := files.OpenFolder(h.path("app"))
	h.must(err)
	defer f.Close()
	h.write("app/l", "a file")
	h.must(f.Symlink("/etc", "l", user, user))
	info, err := os.Lstat(h.path("app/l"))
	h.must(err)
	if uid, gid := files.Owner(info); uid != user || gid != user || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("%v of %d:%d", info.Mode(), uid, gid)
	}
	if names, err := f.Names(); err != nil || len(names) != 2 {
		t.Errorf("%q, %v", names, err)
	}
}
