package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/testing/short"
)

// TestEmptyLeavesForeignMounts uses a volume that could not be unmounted, and links to other folders.
func TestEmptyLeavesForeignMounts(t *testing.T) {
	short.Root(t, "mounting")
	dir, elsewhere := t.TempDir(), t.TempDir()
	volume := filepath.Join(dir, "pods", "a b", "volume")
	for _, sub := range []string{volume, filepath.Join(dir, "pods", "other"), filepath.Join(dir, "plugins")} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(elsewhere, volume, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) })
	data := filepath.Join(elsewhere, "data")
	for _, name := range []string{data, filepath.Join(dir, "plugins", "x"), filepath.Join(dir, "pods", "other", "y")} {
		if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	for _, name := range []string{filepath.Join(dir, "link"), link} {
		if err := os.Symlink(elsewhere, name); err != nil {
			t.Fatal(err)
		}
	}
	mounted, err := Empty(dir, false)
	if err != nil || !slices.Equal(mounted, []string{volume}) {
		t.Errorf("kept %q, %v", mounted, err)
	}
	if _, err := Empty(link, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(data); err != nil {
		t.Errorf("what was mounted: %v", err)
	}
	for _, gone := range []string{filepath.Join(dir, "plugins"), filepath.Join(dir, "pods", "other"), filepath.Join(dir, "link"), link} {
		if _, err := os.Lstat(gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	if err := unix.Unmount(volume, 0); err != nil {
		t.Fatal(err)
	}
	if mounted, err := Empty(dir, true); err != nil || len(mounted) > 0 {
		t.Errorf("kept %q, %v", mounted, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if _, err := Empty(dir, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
	if _, err := Empty(dir, false); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestEmptyFollowsNoLinkOfUser(t *testing.T) {
	short.AsRoot(t, "a folder of another user")
	root := t.TempDir()
	for _, name := range []string{"app", "victim/data"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(filepath.Join(root, "app"), 4242, 4242), os.Symlink("../victim", filepath.Join(root, "app/link"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Empty(filepath.Join(root, "app/link/data"), false); !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "victim/data")); err != nil {
		t.Error(err)
	}
}
