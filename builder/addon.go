package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/manifest"
)

// addOn is a directory with a Manifest. Its files are read through an os.Root, so that no link leads out of it.
type addOn struct {
	dir           string // absolute
	name, version string // the last two elements of dir
	manifest      *manifest.File
	root          *os.Root
}

func openAddOn(dir string) (*addOn, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	a := &addOn{dir: abs, version: filepath.Base(abs), name: filepath.Base(filepath.Dir(abs))}
	for _, word := range []string{a.name, a.version} {
		if word == string(filepath.Separator) || strings.HasPrefix(word, ".") {
			return nil, fmt.Errorf("add-on %s: a directory <name>/<version> is needed, which name the package", abs)
		}
	}
	// The Manifest is named as the user named the directory, so that positions lead to it.
	file := filepath.Join(dir, manifest.FileName)
	if a.manifest, err = manifest.Load(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("add-on %s: %w; name a directory that has a %s", dir, err, manifest.FileName)
		}
		return nil, err
	}
	if a.root, err = os.OpenRoot(abs); err != nil {
		return nil, fmt.Errorf("open add-on: %w", err)
	}
	return a, nil
}

func (a *addOn) close() { _ = a.root.Close() }

// lockName is the file that pins what a Manifest names. It says how to build the package and is no part of it.
const lockName = manifest.FileName + ".lock"

// files lists the add-on's own files, to be packed below to. Hidden files and the lock are left out. Modes are reduced to
// whether a file is executable, since the rest depends on the umask of whoever checked it out. A symbolic link inside
// the directory is packed as the file it leads to.
func (a *addOn) files(to string) ([]bundle.File, error) {
	var files []bundle.File
	err := fs.WalkDir(a.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != "." && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() || name == lockName {
			return nil
		}
		f, err := a.file(name)
		f.Path = path.Join(to, name)
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read add-on %s: %w", a.dir, err)
	}
	return files, nil
}

func (a *addOn) file(name string) (bundle.File, error) {
	info, err := a.root.Stat(name)
	if err != nil {
		return bundle.File{}, fmt.Errorf("%w; a link must lead to a file of the same add-on", err)
	}
	if !info.Mode().IsRegular() {
		return bundle.File{}, fmt.Errorf("%s is neither a regular file nor a link to one", name)
	}
	f := bundle.File{Mode: 0o644, Open: func() (io.ReadCloser, error) { return a.root.Open(name) }}
	if info.Mode()&0o111 != 0 {
		f.Mode = 0o755
	}
	content, err := f.Open()
	if err != nil {
		return bundle.File{}, err
	}
	defer content.Close()
	h := sha256.New()
	f.Size, err = io.Copy(h, content)
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return f, err
}
