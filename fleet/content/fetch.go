package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/transfer"
)

// Fetch brings the images of an archive into a folder, which opens as a bundle then. The files of an interrupted fetch are kept,
// including half a file, and the next fetch resumes there.
func Fetch(ctx context.Context, a *bundle.Archive, folder string) error {
	complete := filepath.Join(folder, bundle.IndexName)
	if _, err := os.Stat(complete); err == nil {
		return nil
	}
	for _, e := range a.Index.Entries {
		if !a.Index.OfImage(e) {
			continue
		}
		if err := fetchFile(ctx, a, e, filepath.Join(folder, filepath.FromSlash(e.Path))); err != nil {
			return fmt.Errorf("fetch %s: %w", e.Path, err)
		}
	}
	index, _ := a.Raw()
	return atomicfile.Write(complete, index)
}

// fetchFile brings one file. It has its name only when it has its digest.
func fetchFile(ctx context.Context, a *bundle.Archive, e bundle.Entry, name string) (err error) {
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	have, err := io.Copy(sum, f)
	if err != nil {
		return err
	}
	if have <= e.Size {
		if err := rest(ctx, a, e, have, io.MultiWriter(f, sum)); err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != e.SHA256 {
		return errors.Join(fmt.Errorf("the content has the digest %s, not %s; it will be fetched again", got, e.SHA256), os.Remove(part))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(part, name)
}

func rest(ctx context.Context, a *bundle.Archive, e bundle.Entry, from int64, to io.Writer) error {
	r, err := a.OpenRest(e.Path, from)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, transfer.ContextReader(ctx, r)) // the store may be a folder, which reads on
	return errors.Join(err, r.Close())
}
