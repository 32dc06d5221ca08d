package delta

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
)

// inUse is how long after its use a patch may still be read for a bundle. Open sets have copies.
const inUse = time.Hour

// used notes that a file of the spool is used: its modification time is the last use. A folder that cannot be written stays as it is.
func used(name string) {
	now := time.Now()
	_ = os.Chtimes(name, now, now)
}

// Trim removes patches and lists of similar files, those that were not used for the longest time first, until the others have at most so
// many bytes together. What was used within an hour stays.
func (s *Spool) Trim(most int64) error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var total int64
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), form) && !strings.HasSuffix(e.Name(), pairsForm) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files, total = append(files, info), total+info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if total <= most || time.Since(f.ModTime()) < inUse {
			return nil
		}
		name := filepath.Join(s.dir, f.Name())
		if err := errors.Join(atomicfile.Remove(name+".json"), atomicfile.Remove(name)); err != nil {
			return err
		}
		total -= f.Size()
	}
	return nil
}
