package baseline

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/files"
)

// folder opens the folder of a watched path.
func (r *Record) folder(path string) (*files.Folder, error) {
	return folderOf(r.options.Root, path, func(folder string) (known []File) {
		if f, ok := r.before.Files[folder]; ok {
			known = append(known, f)
		}
		if c := r.changes.Files[folder]; c.File != nil {
			known = append(known, *c.File)
		}
		return known
	})
}

// folderOf opens the folder of a watched path. From the watched folder on, no symbolic link is followed, and each folder must
// have its known owner: the owner of a folder can replace it.
func folderOf(root, path string, known func(folder string) []File) (*files.Folder, error) {
	at := slices.IndexFunc(watched(), func(top string) bool { return files.IsIn(path, []string{top}) })
	if at < 0 {
		return nil, fmt.Errorf("%s is not in a watched folder", path)
	}
	here := filepath.Dir(watched()[at])
	folder, err := files.OpenFolder(filepath.Join(root, here))
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(filepath.Dir(path), here), "/") {
		if name == "" {
			continue
		}
		here = filepath.Join(here, name)
		next, err := folder.Folder(name)
		_ = folder.Close()
		if err != nil {
			return nil, err
		}
		if err := checkOwner(next, here, known(here)); err != nil {
			return nil, errors.Join(err, next.Close())
		}
		folder = next
	}
	return folder, nil
}

// checkOwner refuses a folder with another owner than it had. An unknown folder must be root's.
func checkOwner(folder *files.Folder, path string, known []File) error {
	info, err := folder.Stat()
	if err != nil {
		return err
	}
	uid, _ := files.Owner(info)
	if len(known) == 0 {
		known = []File{{Mode: info.Mode()}}
	}
	if slices.ContainsFunc(known, func(f File) bool { return f.Mode.IsDir() && f.UID == uid }) {
		return nil
	}
	return fmt.Errorf("%s belongs to user %d, but did not before: it %w", path, uid, files.ErrUnsafe)
}
