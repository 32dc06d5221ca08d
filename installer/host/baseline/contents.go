package baseline

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// maxKept bounds the content that is kept of all files together.
const maxKept = 128 << 20

// keepContents writes the files that can be restored to a tar archive at name: /etc first, since programs can be reinstalled
// but settings cannot.
func keepContents(name, root string, all Files) error {
	return files.Fill(name, 0o600, func(w *os.File) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		archive := tar.NewWriter(packed)
		var kept int64
		paths := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
			if etc := strings.HasPrefix(a, "/etc/"); etc != strings.HasPrefix(b, "/etc/") {
				if etc {
					return -1
				}
				return 1
			}
			return strings.Compare(a, b)
		})
		for _, path := range paths {
			f := all[path]
			if f.Mode.IsRegular() && (f.SHA256 == "" || kept+f.Size > maxKept) {
				continue
			}
			if err := keep(archive, root, path, all); err != nil {
				return fmt.Errorf("save %s: %w", path, err)
			}
			kept += f.Size
		}
		return errors.Join(archive.Close(), packed.Close())
	})
}

// keep writes one file to the archive. A file that changes in the meantime, or that somebody replaces, is left out.
func keep(archive *tar.Writer, root, path string, all Files) error {
	f := all[path]
	header := &tar.Header{Name: path, Mode: int64(f.Mode.Perm()), Uid: int(f.UID), Gid: int(f.GID), ModTime: time.Unix(0, f.Modified), Format: tar.FormatPAX}
	switch {
	case f.Mode.IsDir():
		header.Typeflag = tar.TypeDir
	case f.Mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.Link
	case f.Mode.IsRegular():
		header.Typeflag, header.Size = tar.TypeReg, f.Size
	default:
		return nil // a socket or a device cannot be recreated from an archive
	}
	if !f.Mode.IsRegular() {
		return archive.WriteHeader(header)
	}
	text, err := contentOf(root, path, all)
	if isGone(err) || err == nil && sha256hex.Of(text) != f.SHA256 {
		return nil
	}
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(text)
	return err
}

func contentOf(root, path string, all Files) ([]byte, error) {
	folder, err := folderOf(root, path, func(folder string) []File { return []File{all[folder]} })
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	file, _, err := folder.Open(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, all[path].Size+1))
}

// eachKept calls see for each file in the archive.
func eachKept(name string, see func(path string, content io.Reader)) error {
	file, err := regularfile.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	archive := tar.NewReader(packed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		see(header.Name, archive)
	}
}

// put restores one file. now is its state after the install, nil for none.
func put(folder *files.Folder, name string, f File, now *File, content io.Reader) error {
	switch {
	case f.Mode.IsDir():
		return putFolder(folder, name, f, now)
	case f.Mode&fs.ModeSymlink != 0:
		return folder.Symlink(f.Link, name, f.UID, f.GID)
	default:
		return putContent(folder, name, f, content)
	}
}

// putFolder sets the owner and mode of a folder, or creates it. It is the folder that the install left or that was created here,
// and no other one that its parent's owner has moved there in the meantime.
func putFolder(parent *files.Folder, name string, f File, now *File) error {
	if now == nil {
		if err := parent.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	folder, err := parent.Folder(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	info, err := folder.Stat()
	if err != nil {
		return err
	}
	names, err := folder.Names()
	if err != nil {
		return err
	}
	if is := fileOf(info); now == nil && len(names) > 0 || now != nil && !(now.same(is) && now.sameInode(is)) {
		return fmt.Errorf("%s was replaced in the meantime: it %w", folder.Path(), files.ErrUnsafe)
	}
	self, err := folder.Self()
	if err != nil {
		return err
	}
	return errors.Join(self.Chown(int(f.UID), int(f.GID)), self.Chmod(f.Mode), self.Close())
}

func putContent(folder *files.Folder, name string, f File, content io.Reader) error {
	file, err := folder.Create("." + name + ".*")
	if err != nil {
		return err
	}
	defer file.Discard()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(file, sum), content); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("its saved copy has sha256 %s, not %s", got, f.SHA256)
	}
	// by the open file: its name may belong to another one by now
	if err := errors.Join(file.Chown(int(f.UID), int(f.GID)), files.SetModified(file.File, time.Unix(0, f.Modified))); err != nil {
		return err
	}
	return file.Commit(name, f.Mode)
}
