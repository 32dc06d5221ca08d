package mounts

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/testing/short"
)

func TestDeepestMountsAreUnmountedFirst(t *testing.T) {
	short.Root(t, "mounting")
	runtime.LockOSThread()
	dir := t.TempDir()
	for _, sub := range []string{"ours", "ours/below a space", "kept", "oursnot"} {
		name := filepath.Join(dir, sub)
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("none", name, "tmpfs", 0, "size=64k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(name, unix.MNT_DETACH) })
	}
	busy, err := os.Open(filepath.Join(dir, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir+"/ours", link); err != nil {
		t.Fatal(err)
	}
	if err := Unmount([]string{link, dir + "/kept"}, []string{dir + "/kept"}); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for sub, want := range map[string]bool{"/ours ": false, `/ours/below\040a\040space `: false, "/kept ": true, "/oursnot ": true} {
		if bytes.Contains(mounts, []byte(dir+sub)) != want {
			t.Errorf("%s mounted: %t, want %t", sub, !want, want)
		}
	}
}
