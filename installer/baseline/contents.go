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

	"github.com/sealift/sealift/internal/atomicfile"
)

// maxKept bounds the content that is kept of all files together.
const maxKept = 128 << 20

// keepContents writes the files that can be restored to a tar archive at name: what is in /etc first, since programs can be
// had again and settings cannot.
func keepContents(name, root string, files Files) error {
	return atomicfile.Fill(name, 0o600, func(w *os.File) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		archive := tar.NewWriter(packed)
		var kept int64
		paths := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
			if etc := strings.HasPrefix(a, "/etc/"); etc != strings.HasPrefix(b, "/etc/") {
				if etc {
					return -1
				}
				return 1
			}
			return strings.Compare(a, b)
		})
		for _, path := range paths {
			f := files[path]
			if f.Mode.IsRegular() && (f.SHA256 == "" || kept+f.Size > maxKept) {
				continue
			}
			if err := keep(archive, root, path, f); err != nil {
				return fmt.Errorf("keep %s: %w", path, err)
			}
			kept += f.Size
		}
		return errors.Join(archive.Close(), packed.Close())
	})
}

func keep(archive *tar.Writer, root, path string, f File) error {
	header := &tar.Header{Name: path, Mode: int64(f.Mode.Perm()), Uid: int(f.UID), Gid: int(f.GID), ModTime: time.Unix(0, f.Modified), Format: tar.FormatPAX}
	switch {
	case f.Mode.IsDir():
		header.Typeflag = tar.TypeDir
	case f.Mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.Link
	case f.Mode.IsRegular():
		header.Typeflag, header.Size = tar.TypeReg, f.Size
	default:
		return nil // a socket or a device cannot be made again out of an archive
	}
	if !f.Mode.IsRegular() {
		return archive.WriteHeader(header)
	}
	src, err := os.Open(filepath.Join(root, path))
	if err != nil {
		return err
	}
	defer src.Close()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(archive, src, f.Size)
	return err
}

// restore puts the wanted files back from the archive, and returns those that it does not have.
func restore(name, root string, wanted Files) (missing []string, err error) {
	missing = slices.Sorted(maps.Keys(wanted))
	file, err := os.Open(name)
	if err != nil {
		return missing, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return missing, fmt.Errorf("%s: %w", name, err)
	}
	archive := tar.NewReader(packed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return missing, nil
		}
		if err != nil {
			return missing, fmt.Errorf("%s: %w", name, err)
		}
		f, ok := wanted[header.Name]
		if !ok {
			continue
		}
		if err := put(root, header.Name, f, archive); err != nil {
			return missing, fmt.Errorf("restore %s: %w", header.Name, err)
		}
		missing = slices.DeleteFunc(missing, func(path string) bool { return path == header.Name })
	}
}

// put makes one file what it was.
func put(root, path string, f File, content io.Reader) error {
	name := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch {
	case f.Mode.IsDir():
		if err := os.MkdirAll(name, f.Mode.Perm()); err != nil {
			return err
		}
	case f.Mode&fs.ModeSymlink != 0:
		temporary := name + ".sealift-new"
		if err := errors.Join(removeIfThere(temporary), os.Symlink(f.Link, temporary)); err != nil {
			return err
		}
		if err := os.Rename(temporary, name); err != nil {
			return err
		}
		return os.Lchown(name, int(f.UID), int(f.GID))
	default:
		return putContent(name, f, content)
	}
	return errors.Join(os.Chown(name, int(f.UID), int(f.GID)), os.Chmod(name, f.Mode))
}

func putContent(name string, f File, content io.Reader) error {
	file, err := atomicfile.Create(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer file.Discard()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(file, sum), content); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("what was kept of it has sha256 %s, not %s", got, f.SHA256)
	}
	modified := time.Unix(0, f.Modified)
	if err := errors.Join(file.Chown(int(f.UID), int(f.GID)), os.Chtimes(file.Name(), modified, modified)); err != nil {
		return err
	}
	return file.Commit(name, f.Mode)
}

func removeIfThere(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
