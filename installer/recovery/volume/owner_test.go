package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/testing/short"
)

// user owns a volume.
const user = 4242

// TestOwnerCannotAccessVolumeDuringWrite has the folder of a volume that its owner could fill with links in the meantime.
func TestOwnerCannotAccessVolumeDuringWrite(t *testing.T) {
	short.AsRoot(t, "files of other users")
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "volume")
	fill(t, from)
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chown(dir, user, user)); err != nil {
		t.Fatal(err)
	}
	w, err := Write(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil || stat.Uid != 0 || stat.Mode&0o777 != 0o700 {
		t.Errorf("the folder belongs to %d with mode %o, %v", stat.Uid, stat.Mode, err)
	}
	if _, err := w.Write(packed(t, from)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if want, got := look(t, from), look(t, dir); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestVolumeBelowLinkOfUserIsNeitherReadNorWritten(t *testing.T) {
	short.AsRoot(t, "files of other users")
	root := t.TempDir()
	for _, name := range []string{"app", "victim/volume"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(filepath.Join(root, "app"), user, user), os.Symlink("../victim", filepath.Join(root, "app/link"))); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "app/link/volume")
	_, write := Write(t.Context(), dir)
	_, read := Pack(t.Context(), dir, nil)
	_, lacks := IsEmpty(dir)
	for _, err := range []error{write, read, lacks} {
		if !errors.Is(err, files.ErrUnsafe) {
			t.Errorf("got %v", err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(root, "victim/volume")); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(root, "victim/volume")); err != nil || info.Mode() != fs.ModeDir|0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
