package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/bundle/signature"
)

// openParts opens the archive whose parts are in the named folders. A named file is one of its parts.
func openParts(names []string, trusted []signature.PublicKey) (*Archive, error) {
	r, err := parts.Open(names...)
	if err != nil {
		return nil, err
	}
	a, err := NewArchive(r, r.Size(), trusted...)
	if err == nil && a.Digest != r.Set().Archive {
		err = fmt.Errorf("the parts are said to have the archive %s, and have %s", r.Set().Archive, a.Digest)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("parts in %s: %w", strings.Join(names, " and "), err), r.Close())
	}
	a.parts, a.closer = r, r
	return a, nil
}

// CheckParts reads all parts of an archive, whose name is one that Open takes. It repairs nothing.
func CheckParts(ctx context.Context, name string) (parts.Report, error) {
	names := folders(name)
	if names == nil {
		names = []string{name}
	}
	return parts.Check(ctx, names...)
}

// folders returns the folders that a name lists, or nil if it is the name of one place.
func folders(name string) []string {
	if _, err := os.Stat(name); err == nil || !strings.ContainsRune(name, os.PathListSeparator) {
		return nil
	}
	return filepath.SplitList(name)
}

// hasIndex reports whether a folder is an unpacked bundle.
func hasIndex(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, IndexName))
	return !errors.Is(err, fs.ErrNotExist)
}

// Parts returns the reader of the parts that the archive lies in, or nil if it is in one piece.
func (a *Archive) Parts() *parts.Reader { return a.parts }

// Size returns the bytes of a packed archive, or zero if it is unpacked.
func (a *Archive) Size() int64 { return a.size }
