package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/preflight"
)

// tmpfs mounts a separate file system of some MiB, with so many of them free.
func tmpfs(t *testing.T, size, free int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
		t.Fatalf("mount a disk, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, (size-free)<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFullDiskIsReportedOnceWithNeed(t *testing.T) {
	short.AsRoot(t, "mounting")
	full, small, large := tmpfs(t, 2, 0), tmpfs(t, 100, 99), tmpfs(t, 300, 299)
	paths := []string{large, full, filepath.Join(full, "not", "there"), small, "/nowhere"}
	needs := []preflight.Space{{Path: filepath.Join(small, "not-there"), Bytes: 60e6}, {Path: small, Bytes: 60e6}, {Path: large, Bytes: 1e6}}
	isFull := full + " has 0 B free"
	if diff := cmp.Diff([]string{isFull, small + " has 99.0 MiB free, and the rest of the install needs 114.4 MiB"}, fullDisks(paths, needs, true)); diff != "" {
		t.Errorf("when something found no room (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{isFull}, fullDisks(paths, needs, false)); diff != "" {
		t.Errorf("when something else failed (-want +got):\n%s", diff)
	}
}

func TestDiskFullMessagesAreRecognized(t *testing.T) {
	for text, want := range map[string]bool{
		"E: Write error - write (28: No space left on device)":          true,
		"failed to copy: write /var/lib/x: no space left on device":     true,
		"dial tcp 127.0.0.1:6444: connect: connection refused":          false,
		"there is no space left for another ingress controller on 6443": false,
	} {
		if got := saysFull(errors.New(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if !saysFull(fmt.Errorf("journal: %w", syscall.ENOSPC)) {
		t.Error("an error of the system is not known")
	}
}
