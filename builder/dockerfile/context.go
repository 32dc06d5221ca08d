package dockerfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/sealift/sealift/manifest/repository"
)

// Context is a directory of a repository whose files a build may copy.
type Context struct {
	Dir    string `json:"dir"`    // relative to the root of the repository
	SHA256 string `json:"sha256"` // of the names, modes and contents of its files

	root string // of the repository
}

// ReadContext lists the files of a directory of a repository. A link counts as its target, which must be a file of the
// repository. It leaves out the version control's own files, and keeps of a mode only whether the file is executable.
func ReadContext(ctx context.Context, root, dir string) (*Context, error) {
	c := &Context{Dir: path.Clean(dir), root: root}
	var err error
	if c.SHA256, err = c.copy(ctx, func(string, fs.FileMode) (io.WriteCloser, error) { return nopCloser{io.Discard}, nil }); err != nil {
		return nil, fmt.Errorf("read context %s: %w", dir, err)
	}
	return c, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// copyTo copies the files into a directory, if they have not changed.
func (c *Context) copyTo(ctx context.Context, to string) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	got, err := c.copy(ctx, func(name string, mode fs.FileMode) (io.WriteCloser, error) {
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		return root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	})
	if err == nil && got != c.SHA256 {
		err = errors.New("its files changed during the build; build again")
	}
	return err
}

// copy copies every file to the writer that create opens for it, in order, and returns the digest of all.
func (c *Context) copy(ctx context.Context, create func(name string, mode fs.FileMode) (io.WriteCloser, error)) (string, error) {
	r, err := repository.At(c.root)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if info, err := fs.Stat(r.FS(), c.Dir); err != nil || !info.IsDir() {
		return "", errors.Join(errors.New("it is not a directory of the repository"), err)
	}
	all := sha256.New()
	err = fs.WalkDir(r.FS(), c.Dir, func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, context.Cause(ctx))
		case e.Name() == ".git":
			return skip(e)
		case e.IsDir():
			return nil
		}
		name, err := filepath.Rel(c.Dir, at)
		if err != nil {
			return err
		}
		return copyFile(r, at, func(mode fs.FileMode) (io.WriteCloser, error) { return create(name, mode) }, func(mode fs.FileMode, digest string) {
			fmt.Fprintf(all, "%q %o %s\n", name, mode, digest)
		})
	})
	return hex.EncodeToString(all.Sum(nil)), err
}

func skip(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func copyFile(r *repository.Repository, at string, create func(fs.FileMode) (io.WriteCloser, error), tell func(fs.FileMode, string)) error {
	in, err := r.Open(at)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := create(mode)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	tell(mode, hex.EncodeToString(sum.Sum(nil)))
	return errors.Join(err, out.Close())
}
