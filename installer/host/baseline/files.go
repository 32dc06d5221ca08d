package baseline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// File identifies the state of a file.
type File struct {
	Mode     fs.FileMode `json:"mode"` // with the kind of file
	UID      uint32      `json:"uid,omitempty"`
	GID      uint32      `json:"gid,omitempty"`
	Size     int64       `json:"size,omitempty"`
	Modified int64       `json:"modified,omitempty"` // nanoseconds since 1970
	Changed  int64       `json:"changed,omitempty"`  // of the inode, nanoseconds since 1970
	SHA256   string      `json:"sha256,omitempty"`   // of regular files up to maxDigested bytes
	Link     string      `json:"link,omitempty"`     // where a symbolic link leads
	Inode    uint64      `json:"inode,omitempty"`    // of a folder: one with the same name, owner and mode may be another
}

// maxDigested bounds the content that is read and stored of one file. Configuration is smaller; a larger program is identified
// by its size and time.
const maxDigested = 1 << 20

// maxFiles bounds the files that are watched below one folder, so that a data set under /opt does not slow down every step.
const maxFiles = 50_000

// same reports whether two states are one, as far as the content and its rights go.
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

// untouched means that a file's inode was not written to, whatever its content.
func (f File) untouched(o File) bool {
	return f.Size == o.Size && f.Modified == o.Modified && f.Changed == o.Changed && f.Mode == o.Mode
}

// sameInode reports whether two states can belong to one folder. An older record does not have its inode.
func (f File) sameInode(o File) bool { return f.Inode == o.Inode || f.Inode == 0 || o.Inode == 0 }

// Files are states by absolute path.
type Files map[string]File

// watched are the folders and files that an install, with any hooks, may change: settings, units, programs outside package
// managers, and files that root's shells read.
func watched() []string {
	return []string{"/etc", "/usr/lib/systemd/system", "/usr/local", "/opt", "/root/.bashrc", "/root/.bash_profile", "/root/.profile", "/root/.kube"}
}

// volatileFiles are files that programs write again by themselves.
func volatileFiles() []string {
	return []string{"/etc/.pwd.lock", "/etc/mtab", "/etc/ld.so.cache", "/etc/adjtime", "/etc/machine-id"}
}

// scan reads all watched files below the root of o. Digests of files untouched since known was made are taken from there. Of folders
// that are too large, and of those in unscanned, which once were, all stays as known. They are returned as skipped.
func scan(o Options, unscanned []string, known Files) (all Files, skipped []string, err error) {
	all = make(Files)
	s := scanner{skip: append(volatileFiles(), o.Skip...), data: o.Data, known: known}
	for _, folder := range watched() {
		var found Files
		err := errTooMany
		if !slices.Contains(unscanned, folder) {
			found, err = s.folder(o.Root, folder)
		}
		if errors.Is(err, errTooMany) {
			skipped = append(skipped, folder)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(all, found)
	}
	for path, f := range known {
		if files.IsIn(path, skipped) {
			all[path] = f
		}
	}
	return all, skipped, nil
}

var errTooMany = errors.New("too many files to watch")

// scanner reads everything below one watched folder in the same file system.
type scanner struct {
	skip   []string
	data   []string // folders whose content is not looked at
	known  Files
	found  Files
	device uint64 // 0 before the first look
}

func (s scanner) folder(root, path string) (Files, error) {
	s.found = make(Files)
	parent, err := files.OpenFolder(filepath.Join(root, filepath.Dir(path)))
	if isGone(err) {
		return s.found, nil
	}
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	return s.found, s.look(parent, path)
}

// below reports whether a path is in one of the folders. A folder is not in itself.
func below(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(path, folder+"/") })
}

// isGone reports whether something has disappeared, or is replaced repeatedly.
func isGone(err error) bool {
	return isMissing(err) || errors.Is(err, files.ErrUnsafe) || errors.Is(err, regularfile.ErrNot)
}

func (s *scanner) look(folder *files.Folder, path string) error {
	if slices.Contains(s.skip, path) {
		return nil
	}
	name := filepath.Base(path)
	info, err := folder.Lstat(name)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, _ := info.Sys().(*syscall.Stat_t) // every file of Linux has one
	if s.device == 0 {
		s.device = stat.Dev
	}
	if stat.Dev != s.device && info.IsDir() { // another file system is mounted here
		return nil
	}
	if len(s.found) >= maxFiles {
		return errTooMany
	}
	f, err := describe(folder, name, s.known[path])
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.found[path] = f
	if !f.Mode.IsDir() || slices.Contains(s.data, path) {
		return nil
	}
	return s.below(folder, path)
}

func (s *scanner) below(parent *files.Folder, path string) error {
	folder, err := parent.Folder(filepath.Base(path))
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := folder.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.look(folder, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// describe describes one file. Owner, mode and content belong to one file, even if it is replaced in the meantime.
func describe(folder *files.Folder, name string, known File) (File, error) {
	info, err := folder.Lstat(name)
	if err != nil {
		return File{}, err
	}
	f := fileOf(info)
	switch {
	case f.Mode.Type() == fs.ModeSymlink:
		f.Link, err = folder.Readlink(name)
	case !f.Mode.IsRegular(), f.Size > maxDigested:
	case known.SHA256 != "" && f.untouched(known):
		f.SHA256 = known.SHA256
	default:
		f, err = digest(folder, name)
	}
	if err != nil {
		err = fmt.Errorf("inspect %s: %w", filepath.Join(folder.Path(), name), err)
	}
	return f, err
}

// fileOf describes a file without its content.
func fileOf(info fs.FileInfo) File {
	f := File{Mode: info.Mode()}
	f.UID, f.GID = files.Owner(info)
	stat, _ := info.Sys().(*syscall.Stat_t)
	switch {
	case f.Mode.IsRegular():
		f.Size, f.Modified, f.Changed = info.Size(), info.ModTime().UnixNano(), stat.Ctim.Nano()
	case f.Mode.IsDir():
		f.Inode = stat.Ino
	}
	return f
}

func digest(folder *files.Folder, name string) (File, error) {
	file, info, err := folder.Open(name)
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	f := fileOf(info)
	f.SHA256, _, err = sha256hex.Read(io.LimitReader(file, maxDigested))
	return f, err
}
