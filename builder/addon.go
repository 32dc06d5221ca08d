package builder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/manifest/repository"
)

// addOn is a directory with a Manifest. All files that it reads are in its repository. Its own files are also read through an
// os.Root of its parent: versions of an add-on share files by links such as ../template/install.sh, and no link leads further
// out.
type addOn struct {
	dir           string // absolute
	named         string // as the user names it
	name, version string // the last two elements of dir
	manifest      *manifest.File
	repository    *repository.Repository
	parent        string   // directory <name> in the repository
	root          *os.Root // directory <name>
}

func openAddOn(dir string) (_ *addOn, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	a := &addOn{dir: abs, named: dir, version: filepath.Base(abs), name: filepath.Base(filepath.Dir(abs))}
	for _, word := range []string{a.name, a.version} {
		if word == string(filepath.Separator) || strings.HasPrefix(word, ".") {
			return nil, fmt.Errorf("add-on %s: not a directory <name>/<version>, from which the package gets its name", abs)
		}
	}
	if a.repository, err = repository.Of(abs); err != nil {
		return nil, fmt.Errorf("add-on %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			a.repository.Close()
		}
	}()
	// The Manifest is named as the user named the directory, so that positions lead to it.
	file := filepath.Join(dir, manifest.FileName)
	if a.manifest, err = manifest.LoadFrom(a.repository, file); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil, fmt.Errorf("add-on %s: %w; name a directory that has a %s", dir, err, manifest.FileName)
		}
		return nil, err
	}
	if a.parent, err = a.repository.Name(filepath.Dir(abs), "."); err != nil {
		return nil, fmt.Errorf("open add-on: %w", err)
	}
	if a.root, err = a.repository.Dir(a.parent); err != nil {
		return nil, fmt.Errorf("open add-on: %w", err)
	}
	return a, nil
}

// directives returns the add-on in the form that the kinds of directive use.
func (a *addOn) directives() kind.AddOn {
	return kind.AddOn{Named: a.named, Manifest: a.manifest, Repository: a.repository, Open: a.open}
}

func (a *addOn) close() {
	_ = a.root.Close()
	a.repository.Close()
}

// open opens a file of the repository by its path from the directory of the Manifest.
func (a *addOn) open(name string) (*os.File, error) {
	name, err := a.repository.Name(a.dir, name)
	if err != nil {
		return nil, err
	}
	return a.repository.Open(name)
}

// checkMeta refuses mistakes in addon.yaml, with which no bundle takes the package.
func (a *addOn) checkMeta() error {
	_, err := catalog.ReadDir(a.root.FS(), a.version, a.name)
	mistakes, ok := errors.AsType[diag.Errors](err)
	if !ok {
		return err
	}
	for i := range mistakes {
		mistakes[i].Pos.File = filepath.Join(a.named, catalog.MetaFile)
	}
	return mistakes
}

// maxDepth bounds directories inside each other. Only a link to a directory above it gets there.
const maxDepth = 32

// helmIgnore returns which files of a module do not belong to its chart.
const helmIgnore = ".helmignore"

// files lists the add-on's own files, to be packed below to. It leaves out hidden files, and the lock, which describes how to
// build the package and is not part of it. A mode keeps only whether the file is executable: the rest depends on the umask of
// the checkout. A symbolic link to a file or directory of the same add-on, in any of its versions, is packed as its target.
func (a *addOn) files(to string) ([]bundle.File, error) {
	files, err := a.below(a.version, to, 0)
	if err != nil {
		return nil, fmt.Errorf("read add-on %s: %w", a.dir, err)
	}
	return files, nil
}

// below lists the files of one directory and its subdirectories; dir is the path in root.
func (a *addOn) below(dir, to string, depth int) ([]bundle.File, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: more than %d directories inside each other; does a link lead to a directory above it?", dir, maxDepth)
	}
	entries, err := fs.ReadDir(a.root.FS(), dir)
	if err != nil {
		return nil, err
	}
	var files []bundle.File
	for _, e := range entries {
		name := e.Name()
		hidden := strings.HasPrefix(name, ".") && (depth > 0 || name != helmIgnore)
		if hidden || depth == 0 && name == lock.FileName {
			continue
		}
		found, err := a.entry(path.Join(dir, name), path.Join(to, name), depth)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

func (a *addOn) entry(name, to string, depth int) ([]bundle.File, error) {
	info, err := a.root.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%w; a link must lead to a file of the same add-on", err)
	}
	switch {
	case info.IsDir():
		return a.below(name, to, depth+1)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a regular file nor a link to one", name)
	}
	f := bundle.File{Path: to, Mode: 0o644, Open: func() (io.ReadCloser, error) { return a.repository.Open(path.Join(a.parent, name)) }}
	if info.Mode()&0o111 != 0 {
		f.Mode = 0o755
	}
	content, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	f.SHA256, f.Size, err = sha256hex.Read(content)
	return []bundle.File{f}, err
}
