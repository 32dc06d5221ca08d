package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/filelock"
)

// The content folder keeps what the hub sent: a folder for the last parcel, named by the digest of its index, which opens as a
// bundle. The link currentName leads to it. A later parcel leaves out the files that it contains.
const (
	currentName = "current"
	newName     = "new"
)

// currentContent opens the content of the last parcel, or returns nil if there is none.
func currentContent(folder string) (*bundle.Archive, error) {
	a, err := bundle.Open(filepath.Join(folder, currentName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return a, err
}

// lockContent locks the content folder for one apply. The lock is a file beside the folder, since a parcel that is refused
// makes no folder. Call release to unlock.
func lockContent(folder string) (release func(), err error) {
	name := filepath.Clean(folder) + ".lock"
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.TryLock(f); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = fmt.Errorf("another 'sealift fleet apply' works with %s: wait until it has ended", folder)
		}
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// withContent adds the missing content to a parcel that omits files.
func withContent(a *bundle.Archive, folder string) error {
	if a.Index.Base == "" {
		return nil
	}
	base, err := bundle.Open(filepath.Join(folder, a.Index.Base))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the parcel omits files that this cluster had when it reported, but the files in %s have changed since: make a parcel with --since of the newest report, or without it", folder)
	}
	if err == nil {
		if err = a.WithBase(base); err != nil {
			err = errors.Join(err, base.Close())
		}
	}
	return err
}

// sizes counts the bytes of the files that a parcel brings, and of those that it leaves out.
func sizes(a *bundle.Archive) (brings, had int64) {
	for _, e := range a.Index.Entries {
		switch e.Encoding {
		case bundle.InBase:
			had += e.Size
		case bundle.Link:
		default:
			brings += e.Size
		}
	}
	return brings, had
}

// keepContent unpacks a parcel beside the existing content, which it then replaces. Files that the parcel leaves out are
// linked, not copied.
func keepContent(ctx context.Context, a *bundle.Archive, folder string) error {
	index, err := a.UnpackedIndex()
	if err != nil {
		return err
	}
	unpacked, err := bundle.NewUnpacked(index, nil, nil)
	if err != nil {
		return err
	}
	target := filepath.Join(folder, unpacked.Digest)
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		if err := unpack(ctx, a, index, folder, target); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	link := filepath.Join(folder, newName+".link")
	if err := atomicfile.Remove(link); err != nil {
		return err
	}
	if err := os.Symlink(unpacked.Digest, link); err != nil {
		return err
	}
	if err := os.Rename(link, filepath.Join(folder, currentName)); err != nil {
		return err
	}
	return atomicfile.SyncDir(folder)
}

// unpack makes the folder of a parcel.
func unpack(ctx context.Context, a *bundle.Archive, index []byte, folder, target string) (err error) {
	fresh := filepath.Join(folder, newName)
	if err := os.RemoveAll(fresh); err != nil { // of a run that was killed
		return err
	}
	if err := os.MkdirAll(fresh, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(fresh)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := a.Extract(ctx, root, func(e bundle.Entry) bool { return e.Encoding != bundle.InBase }); err != nil {
		return err
	}
	for _, e := range a.Index.Entries { // their paths are checked: they are clean and relative
		if e.Encoding != bundle.InBase {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(e.Path)), 0o755); err != nil {
			return err
		}
		from := filepath.Join(folder, a.Index.Base, filepath.FromSlash(e.Link))
		if err := os.Link(from, filepath.Join(fresh, filepath.FromSlash(e.Path))); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(filepath.Join(fresh, bundle.IndexName), index); err != nil {
		return err
	}
	return os.Rename(fresh, target)
}

// dropOthers removes the content of earlier parcels once the last one is applied: until then, it supplies the omitted files.
func dropOthers(folder string) error {
	keep, err := os.Readlink(filepath.Join(folder, currentName))
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		// a name of 64 characters is a digest
		if e.IsDir() && len(e.Name()) == len(keep) && e.Name() != keep {
			if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
