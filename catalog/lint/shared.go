package lint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/manifest"
)

// shared finds files of which an older version, or the template, has a copy that could be a link. The copy in the newer
// version is what is told, so that each is told once.
func (c *checker) shared() error {
	addOn := filepath.Dir(c.absolute())
	older, err := olderVersions(addOn, c.version)
	if err != nil {
		return err
	}
	return filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") && path != c.dir && entry.IsDir() {
			return filepath.SkipDir
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > maxComparedSize {
			return err
		}
		below, err := filepath.Rel(c.dir, path)
		if err != nil || below == manifest.FileName || below == manifest.FileName+".lock" {
			return err
		}
		for _, other := range older {
			same, err := sameFile(path, info, filepath.Join(addOn, other, below))
			if err != nil {
				return err
			}
			if same {
				c.rule(c.pos(below), "keep it in "+filepath.Join(c.name, template.DirName)+", and links to it in the versions",
					"is a copy of the one in %s", filepath.Join(c.name, other))
				return nil
			}
		}
		return nil
	})
}

// olderVersions lists the template, and the versions before one, newest first.
func olderVersions(addOn, version string) ([]string, error) {
	entries, err := os.ReadDir(addOn)
	if err != nil {
		return nil, err
	}
	var older []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (e.Name() == template.DirName || catalog.CompareVersions(e.Name(), version) < 0) {
			older = append(older, e.Name())
		}
	}
	slices.SortFunc(older, func(a, b string) int { return catalog.CompareVersions(b, a) })
	return older, nil
}

// sameFile tells whether other is a copy of a file. It is none when it is not there, or itself a link.
func sameFile(path string, info fs.FileInfo, other string) (bool, error) {
	there, err := os.Lstat(other)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return false, nil
	case err != nil:
		return false, err
	case !there.Mode().IsRegular() || there.Size() != info.Size():
		return false, nil
	}
	a, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(other)
	return bytes.Equal(a, b), err
}
