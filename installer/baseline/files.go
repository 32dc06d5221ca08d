package baseline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// File is what tells one state of a file from another.
type File struct {
	Mode     fs.FileMode `json:"mode"` // with the kind of file
	UID      uint32      `json:"uid,omitempty"`
	GID      uint32      `json:"gid,omitempty"`
	Size     int64       `json:"size,omitempty"`
	Modified int64       `json:"modified,omitempty"` // nanoseconds since 1970
	Changed  int64       `json:"changed,omitempty"`  // of the inode, nanoseconds since 1970
	SHA256   string      `json:"sha256,omitempty"`   // of regular files up to maxDigested bytes
	Link     string      `json:"link,omitempty"`     // where a symbolic link leads
}

// maxDigested bounds what is read and kept of one file. Configuration is smaller; a program that is larger is told from
// another by its size and time.
const maxDigested = 1 << 20

// maxFiles bounds what is watched below one folder, so that a data set under /opt does not make every step slow.
const maxFiles = 50_000

// same says whether two states are one, as far as the content and its rights go.
func (f File) same(o File) bool {
	if f.Mode != o.Mode || f.UID != o.UID || f.GID != o.GID || f.Link != o.Link {
		return false
	}
	if !f.Mode.IsRegular() {
		return true
	}
	if f.SHA256 != "" || o.SHA256 != "" {
		return f.SHA256 == o.SHA256
	}
	return f.Size == o.Size && f.Modified == o.Modified
}

// untouched says that a file's inode was not written to, whatever its content.
func (f File) untouched(o File) bool {
	return f.Size == o.Size && f.Modified == o.Modified && f.Changed == o.Changed && f.Mode == o.Mode
}

// Files are states by absolute path.
type Files map[string]File

// watched are the folders and files in which an install, whatever its hooks, is expected to change something: settings,
// units, programs that no package manager knows, and what the shells of root read.
func watched() []string {
	return []string{"/etc", "/usr/lib/systemd/system", "/usr/local", "/opt", "/root/.bashrc", "/root/.bash_profile", "/root/.profile", "/root/.kube"}
}

// restless are files that programs write again by themselves.
func restless() []string {
	return []string{"/etc/.pwd.lock", "/etc/mtab", "/etc/ld.so.cache", "/etc/adjtime", "/etc/machine-id"}
}

// scan looks at all watched files below root, where "/" is a whole host. Digests of what was not touched since known was made
// are taken from there. Folders that are too large come back as skipped.
func scan(root string, skip []string, known Files) (files Files, skipped []string, err error) {
	files = make(Files)
	skip = append(restless(), skip...)
	for _, folder := range watched() {
		found, err := scanFolder(root, folder, skip, known)
		if errors.Is(err, errTooMany) {
			skipped = append(skipped, folder)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for path, f := range found {
			files[path] = f
		}
	}
	return files, skipped, nil
}

var errTooMany = errors.New("too many files to watch")

func scanFolder(root, folder string, skip []string, known Files) (Files, error) {
	found := make(Files)
	start := filepath.Join(root, folder)
	var device uint64
	err := filepath.WalkDir(start, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join("/", strings.TrimPrefix(name, filepath.Clean(root)))
		if slices.Contains(skip, path) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: no owner can be told on this system", name)
		}
		if name == start {
			device = stat.Dev
		}
		if stat.Dev != device && entry.IsDir() { // another file system is mounted here
			return filepath.SkipDir
		}
		if len(found) >= maxFiles {
			return errTooMany
		}
		found[path], err = look(name, info, stat, known[path])
		if errors.Is(err, fs.ErrNotExist) {
			delete(found, path)
			return nil
		}
		return err
	})
	return found, err
}

// look describes one file.
func look(name string, info fs.FileInfo, stat *syscall.Stat_t, known File) (File, error) {
	f := File{Mode: info.Mode(), UID: stat.Uid, GID: stat.Gid}
	var err error
	switch {
	case f.Mode&fs.ModeSymlink != 0:
		f.Link, err = os.Readlink(name)
	case f.Mode.IsRegular():
		f.Size, f.Modified, f.Changed = info.Size(), info.ModTime().UnixNano(), stat.Ctim.Nano()
		switch {
		case f.Size > maxDigested:
		case known.SHA256 != "" && f.untouched(known):
			f.SHA256 = known.SHA256
		default:
			f.SHA256, err = digest(name)
		}
	}
	if err != nil {
		err = fmt.Errorf("look at %s: %w", name, err)
	}
	return f, err
}

// lookAt describes the file at a path, which may not be there.
func lookAt(root, path string) (f File, there bool, err error) {
	name := filepath.Join(root, path)
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return File{}, false, nil
	}
	if err != nil {
		return File{}, false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return File{}, false, fmt.Errorf("%s: no owner can be told on this system", name)
	}
	f, err = look(name, info, stat, File{})
	return f, err == nil, err
}

func digest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
