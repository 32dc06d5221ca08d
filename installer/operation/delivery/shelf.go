package delivery

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/sha256hex"
)

// index is the index of what is on the shelf.
type index struct {
	text   []byte
	digest string // its sha256
}

// indexOf returns the index of an archive. Together with its base, a bundle is another one, which leaves out nothing.
func indexOf(a *bundle.Archive) (i index, err error) {
	if a.Index.Complete() {
		i.text, _ = a.Raw()
	} else if i.text, err = a.UnpackedIndex(); err != nil {
		return i, err
	}
	i.digest = sha256hex.Of(i.text)
	return i, nil
}

// put puts an archive on the shelf, exclusively. Of a folder, the shelf has a link. The images of a packed archive are unpacked
// there.
func put(ctx context.Context, a *bundle.Archive, i index, archive, shelf string) error {
	if err := empty(shelf); err != nil { // of a run that was killed
		return err
	}
	if err := files.MkdirAll(shelf, 0o700); err != nil {
		return err
	}
	place := filepath.Join(shelf, i.digest)
	if a.Size() == 0 && a.Index.Complete() {
		folder, err := filepath.EvalSymlinks(archive)
		if err == nil {
			folder, err = filepath.Abs(folder)
		}
		if err != nil {
			return err
		}
		return files.Symlink(folder, place)
	}
	return unpack(ctx, a, i, place)
}

// unpack writes the images of an archive, and finally its index: without one, the folder is not a bundle.
func unpack(ctx context.Context, a *bundle.Archive, i index, folder string) (err error) {
	if err := files.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	root, err := files.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := a.Extract(ctx, root, a.Index.OfImage); err != nil {
		return err
	}
	if err := bundlepolicy.KeepVerdict(a, folder); err != nil {
		return err
	}
	return files.Write(filepath.Join(folder, bundle.IndexName), i.text)
}

// empty removes everything from a shelf. What links lead to stays.
func empty(shelf string) error {
	names, err := os.ReadDir(shelf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, n := range names {
		err = errors.Join(err, files.RemoveAll(filepath.Join(shelf, n.Name())))
	}
	return err
}
