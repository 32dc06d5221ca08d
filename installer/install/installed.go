package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// Installed is a control plane's part of its bundle: files in the install root, and blobs of images in containerd. An upgrade
// takes from it what its own bundle leaves out.
type Installed struct {
	ctx    context.Context // the reads of blobs end with it
	root   *os.Root
	images *runtime.Runtime
}

// OpenInstalled opens the bundle in an install root until ctx ends. The error wraps fs.ErrNotExist if none was installed there.
func OpenInstalled(ctx context.Context, root string) (*Installed, error) {
	return openInstalled(ctx, root, runtime.Socket)
}

func openInstalled(ctx context.Context, root, socket string) (*Installed, error) {
	if _, err := os.Stat(filepath.Join(root, bundle.IndexName)); err != nil {
		return nil, fmt.Errorf("the installed bundle of this node: %w", err)
	}
	dir, err := files.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	images, err := runtime.Connect(ctx, socket)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &Installed{ctx, dir, images}, nil
}

// Open opens the content of an entry: the file at its path if that has its size, or else the blob of its digest.
func (n *Installed) Open(e bundle.Entry) (io.ReadCloser, error) {
	if f, err := regularfile.OpenIn(n.root, filepath.FromSlash(e.Path)); err == nil {
		if info, err := f.Stat(); err == nil && info.Size() == e.Size {
			return f, nil
		}
		_ = f.Close()
	}
	blob, err := n.images.Blob(n.ctx, e.SHA256)
	if err != nil {
		return nil, err
	}
	return struct {
		*io.SectionReader
		io.Closer
	}{io.NewSectionReader(blob, 0, blob.Size()), blob}, nil
}

// Close closes the folder and the connection to containerd.
func (n *Installed) Close() error { return errors.Join(n.root.Close(), n.images.Close()) }
