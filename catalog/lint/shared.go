package lint

import (
	"crypto/sha256"
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

// shared reports files that are copies of a file in an older version or in the template and could be links. It reports only
// the newer copy. kURL's generators copy whole versions on purpose, so their add-ons are skipped.
func (c *checker) shared() error {
	if !c.declared {
		return nil
	}
	addOn := filepath.Dir(c.absolute())
	older, err := olderVersions(addOn, c.version)
	if err != nil {
		return err
	}
	for _, below := range c.files {
		path := filepath.Join(addOn, c.version, below)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if info.Size() == 0 || info.Size() > maxComparedSize || below == manifest.FileName || below == manifest.FileName+".lock" {
			continue
		}
		for _, other := range older {
			same, err := c.sameFile(path, info, filepath.Join(addOn, other, below))
			if err != nil {
				return err
			}
			if same {
				c.rule(c.pos(below), "keep it in "+filepath.Join(c.name, template.DirName)+", and links to it in the versions",
					"is a copy of the one in %s", filepath.Join(c.name, other))
				break
			}
		}
	}
	return nil
}

// olderVersions lists the template and the versions before version, newest first.
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

// sameFile reports whether other is a copy of a file. A missing file and a link are not copies.
func (l *Linter) sameFile(path string, info fs.FileInfo, other string) (bool, error) {
	there, err := os.Lstat(other)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return false, nil
	case err != nil:
		return false, err
	case !there.Mode().IsRegular() || there.Size() != info.Size():
		return false, nil
	}
	a, err := l.digest(path)
	if err != nil {
		return false, err
	}
	b, err := l.digest(other)
	return a == b, err
}

// digest returns the sha256 of a file and caches it.
func (l *Linter) digest(path string) ([sha256.Size]byte, error) {
	if sum, known := l.digests[path]; known {
		return sum, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	l.digests[path] = sha256.Sum256(data)
	return l.digests[path], nil
}
