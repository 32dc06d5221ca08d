package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/regularfile"
)

// folder is the location of charts in files.
type folder struct {
	names []string // by their paths
	read  func(name string) ([]byte, error)
	close func() error
}

// fromFiles fetches from a folder with archives named <chart>-<version>.tgz, or from the charts of a Sealift package or
// bundle, which is a file or a folder into which it was unpacked.
func fromFiles(dir string, want Chart, digest string) (found Archive, err error) {
	f, err := openFolder(dir)
	if err != nil {
		return Archive{}, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	var files, versions []string
	for _, name := range f.names {
		version, ours := strings.CutPrefix(strings.TrimSuffix(path.Base(name), ".tgz"), want.Name+"-")
		if ours && strings.HasSuffix(name, ".tgz") && exact(version) {
			files, versions = append(files, name), append(versions, version)
		}
	}
	if len(files) == 0 {
		return Archive{}, fmt.Errorf("%s has no file %s-<version>.tgz", dir, want.Name)
	}
	at, err := pick(want.Version, versions)
	if err != nil {
		return Archive{}, err
	}
	content, err := f.read(files[at])
	if err != nil {
		return Archive{}, err
	}
	return pack(content, versions[at], digest)
}

func openFolder(dir string) (folder, error) {
	var f folder
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tgz") {
			f.names = append(f.names, e.Name())
		}
	}
	if err == nil && len(f.names) > 0 {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return f, err
		}
		f.read, f.close = func(name string) ([]byte, error) { return readFile(root, name) }, root.Close
		return f, nil
	}
	archive, err := bundle.Open(dir)
	if err != nil {
		return f, err
	}
	for _, e := range archive.Index.Entries {
		if strings.HasPrefix(e.Path, "addons/") && path.Base(path.Dir(e.Path)) == "charts" {
			f.names = append(f.names, e.Path)
		}
	}
	f.read, f.close = func(name string) ([]byte, error) { return archive.ReadFile(name, MaxSize) }, archive.Close
	return f, nil
}

func readFile(root *os.Root, name string) ([]byte, error) {
	file, err := regularfile.OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err == nil && len(content) > MaxSize {
		err = fmt.Errorf("%s has more than %d bytes", name, int64(MaxSize))
	}
	return content, err
}
