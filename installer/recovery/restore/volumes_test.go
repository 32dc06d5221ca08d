package restore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/volume"
)

// kept is a snapshot's volumes, each with one file.
type kept struct {
	t     *testing.T
	index snapshot.Index
	asked []string
	fails error
}

func keep(t *testing.T, paths ...string) *kept {
	t.Helper()
	k := &kept{t: t}
	for _, path := range paths {
		k.index.Volumes = append(k.index.Volumes, snapshot.Volume{Volume: volume.Volume{Name: filepath.Base(path), Claim: "default/" + filepath.Base(path), Path: path}})
	}
	return k
}

func (k *kept) read(ctx context.Context, create func(string) (*volume.Writer, error)) error {
	dir := k.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("of the snapshot"), 0o600); err != nil {
		return err
	}
	for _, v := range k.index.Volumes {
		w, err := create(v.Name)
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		k.asked = append(k.asked, v.Name)
		if _, err := volume.Pack(ctx, dir, w); err != nil {
			return err
		}
		if k.fails != nil {
			w.Discard()
			return k.fails
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

func TestOnlyMissingVolumesAreWritten(t *testing.T) {
	h := host{files.Host{Rootfs: t.TempDir()}}
	for name, file := range map[string]string{"/srv/used": "now", "/srv/empty": "", "/srv/disk/lost+found": ""} {
		if err := os.MkdirAll(h.Path(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.WriteFile(h.Path(name+"/file"), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	k := keep(t, "/srv/used", "/srv/empty", "/srv/disk", "/srv/gone")
	k.fails = errors.New("the disk is full")
	v, err := h.volumes(k.index, k.read)
	if err != nil || len(v.Lacking) != 3 || len(v.Present) != 1 || v.Title() != "write 3 volumes that this host lacks" {
		t.Fatalf("%+v %v", v, err)
	}
	var said bytes.Buffer
	if err := v.Write(t.Context(), &said); !errors.Is(err, k.fails) {
		t.Error(err)
	}
	k.fails = nil
	if err := v.Write(t.Context(), &said); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"used": "now", "empty": "of the snapshot", "disk": "of the snapshot", "gone": "of the snapshot"} {
		if got, err := os.ReadFile(h.Path("/srv/" + name + "/file")); string(got) != want {
			t.Errorf("%s has %q, want %q: %v", name, got, want, err)
		}
	}
	if err := v.Write(t.Context(), &said); err != nil || strings.Join(k.asked, " ") != "empty empty disk gone" {
		t.Error("written again", k.asked, err)
	}
	if !strings.Contains(said.String(), "volume gone default/gone: writes /srv/gone\n") {
		t.Error(said.String())
	}
}

func TestRestoreWritesVolumesOnly(t *testing.T) {
	h := host{files.Host{Rootfs: t.TempDir()}}
	k := keep(t, "/srv/volume")
	path := h.Path("/srv/volume")
	v, err := h.volumes(k.index, k.read)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	k.fails = errors.New("the disk is full")
	if err := v.Alone(t.Context(), root, io.Discard); !errors.Is(err, k.fails) || !strings.Contains(err.Error(), "run the same command again to go on") {
		t.Error(err)
	}
	k.fails = nil
	if err := v.Alone(t.Context(), root, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "file")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(path, ".sealift-unfinished")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
