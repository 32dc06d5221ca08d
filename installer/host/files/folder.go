// Package files reads and writes files of a host as root, even in folders that others may write to.
//
// A path is opened folder by folder, from /. A symbolic link in the path is followed only where only root could have put it. So
// nobody can redirect a write, a change of owner, or a removal out of their own folder, whether the link exists before or appears
// while sealift works. What has been opened stays the same folder, wherever it is moved.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/regularfile"
)

// ErrUnsafe reports that a non-root user may have put something there, so it was not followed.
var ErrUnsafe = errors.New("is in a folder that others may write to, so it is not followed")

// Folder is an open folder. Names are single names in it, not paths; none of its methods follows a symbolic link. Close must be
// called.
type Folder struct {
	root *os.Root
	// trusted: only root can have created the content of the folder. In a shared one, such as /tmp, that holds for root's own files.
	trusted, shared bool
}

// Path is the path of the folder, without symbolic links, when it was opened.
func (f *Folder) Path() string { return f.root.Name() }

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// open opens a folder by its name in another one, or by its path without parent. seen is its state seen there.
func open(parent *Folder, name string, seen fs.FileInfo) (*Folder, error) {
	// A folder is opened through its ".", because a pipe under its name, which may appear any time, would block forever.
	root, err := parent.root.OpenRoot(name + "/.")
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, parent.unsafe(name, "is not a folder any more")
	}
	if err != nil {
		return nil, parent.at(name, err)
	}
	info, err := root.Stat(".")
	if err == nil && !os.SameFile(info, seen) { // os.Root follows links below it, to other folders of the same user
		err = parent.unsafe(name, "was replaced meanwhile")
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f := &Folder{root: root}
	f.trusted, f.shared = trust(info)
	f.trusted = f.trusted && parent.trusts(seen)
	return f, nil
}

// trust reports whether only root, or the user who runs this, controls the content of a folder, and whether others may add to it.
func trust(info fs.FileInfo) (trusted, shared bool) {
	shared = info.Mode().Perm()&0o022 != 0
	return ours(info) && (!shared || info.Mode()&fs.ModeSticky != 0), shared
}

func ours(info fs.FileInfo) bool {
	uid, _ := Owner(info)
	return uid == 0 || int(uid) == os.Geteuid()
}

// Owner returns the owner and the group of a file.
func Owner(info fs.FileInfo) (uid, gid uint32) {
	stat, _ := info.Sys().(*syscall.Stat_t) // every file of Linux has one
	return stat.Uid, stat.Gid
}

// trusts reports whether only root can have put something into the folder.
func (f *Folder) trusts(entry fs.FileInfo) bool { return f.trusted && (!f.shared || ours(entry)) }

// at adds the whole path to an error of os.Root.
func (f *Folder) at(name string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: strings.TrimSuffix(of.Op, "at"), Path: filepath.Join(f.Path(), name), Err: of.Err}
	}
	return err
}

func (f *Folder) unsafe(name, why string) error {
	return fmt.Errorf("%s %s: it %w", filepath.Join(f.Path(), name), why, ErrUnsafe)
}

// Folder opens a folder in this one. A symbolic link is ErrUnsafe; anything else that is not a folder is syscall.ENOTDIR.
func (f *Folder) Folder(name string) (*Folder, error) {
	info, err := f.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().Type() == fs.ModeSymlink:
		return nil, f.unsafe(name, "is a symbolic link")
	case !info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(f.Path(), name), Err: syscall.ENOTDIR}
	}
	return open(f, name, info)
}

// Names lists the folder, sorted.
func (f *Folder) Names() ([]string, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, f.at("", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Stat describes the folder itself.
func (f *Folder) Stat() (fs.FileInfo, error) { return f.root.Stat(".") }

// Lstat describes the file with a name.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) {
	info, err := f.root.Lstat(name)
	return info, f.at(name, err)
}

// Readlink reads where a symbolic link leads.
func (f *Folder) Readlink(name string) (string, error) {
	to, err := f.root.Readlink(name)
	return to, f.at(name, err)
}

// Open opens a regular file for reading, and describes the file that it has opened. It does not wait for a pipe.
func (f *Folder) Open(name string) (*os.File, fs.FileInfo, error) { return f.open(name, os.O_RDONLY) }

func (f *Folder) open(name string, flag int) (*os.File, fs.FileInfo, error) {
	seen, err := f.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if seen.Mode().Type() == fs.ModeSymlink {
		return nil, nil, f.unsafe(name, "is a symbolic link")
	}
	file, err := regularfile.OpenFileIn(f.root, name, flag)
	if err != nil {
		return nil, nil, f.at(name, err)
	}
	info, err := file.Stat()
	if err == nil && !os.SameFile(seen, info) { // it may be a link to another file by now
		err = f.unsafe(name, "was replaced meanwhile")
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// Self opens the folder itself, as a file: to change its owner, or for a program.
func (f *Folder) Self() (*os.File, error) { return f.root.Open(".") }

// Mkdir makes a folder.
func (f *Folder) Mkdir(name string, mode fs.FileMode) error {
	return f.at(name, f.root.Mkdir(name, mode))
}

// Create starts a temporary file with a name made from pattern, as atomicfile.CreateIn does. It gets its own name, in this folder,
// when it is committed.
func (f *Folder) Create(pattern string) (*atomicfile.File, error) {
	file, err := atomicfile.CreateIn(f.root, pattern)
	return file, f.at(pattern, err)
}

// Fill writes a file, as atomicfile.Fill does. A symbolic link of that name is replaced.
func (f *Folder) Fill(name string, mode fs.FileMode, fill func(*os.File) error) error {
	return f.at(name, atomicfile.FillIn(f.root, name, mode, fill))
}

// Symlink creates a symbolic link, in place of the file or link with its name, and sets its owner.
func (f *Folder) Symlink(target, name string, uid, gid uint32) error {
	temporary := "." + name + ".link"
	if err := f.Remove(temporary); err != nil { // of a run that was killed
		return err
	}
	if err := f.root.Symlink(target, temporary); err != nil {
		return f.at(temporary, err)
	}
	// The owner of the folder may put something else there: the owner of a link is set, never that of its target.
	link, err := f.root.OpenFile(temporary, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return f.at(temporary, err)
	}
	defer link.Close()
	if info, err := link.Stat(); err != nil || info.Mode().Type() != fs.ModeSymlink {
		return errors.Join(err, f.unsafe(temporary, "was replaced meanwhile"))
	}
	if err := unix.Fchownat(int(link.Fd()), "", int(uid), int(gid), unix.AT_EMPTY_PATH); err != nil {
		return f.at(temporary, &fs.PathError{Op: "chown", Path: temporary, Err: err})
	}
	if err := f.root.Rename(temporary, name); err != nil {
		return errors.Join(f.at(name, err), f.Remove(temporary))
	}
	return atomicfile.SyncIn(f.root)
}

// Remove removes a file, a link or an empty folder. It may be gone already.
func (f *Folder) Remove(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.at(name, err)
	}
	return nil
}

// RemoveAll removes the file or folder with a name, and its content. It may be gone already.
func (f *Folder) RemoveAll(name string) error { return f.at(name, f.root.RemoveAll(name)) }

// SetModified sets the time of the last change of an open file or folder.
func SetModified(f *os.File, modified time.Time) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(modified.UnixNano())}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), times, 0); err != nil {
		return fmt.Errorf("set the time of %s: %w", f.Name(), err)
	}
	return nil
}
