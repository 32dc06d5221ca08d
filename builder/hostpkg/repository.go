package hostpkg

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"pault.ag/go/debian/control"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/debfile"
	"github.com/sealift/sealift/builder/hostpkg/repodata"
	"github.com/sealift/sealift/bundle"
)

// Repository returns the files of a repository below dir that the target's own tool installs from, with these packages of one
// target, whose files the cache has. They contain no dates. It fails if a file's own name, version or architecture differ.
func Repository(dir string, packages []Resolved, c *cache.Cache) ([]bundle.File, error) {
	packages = slices.Clone(packages)
	slices.SortFunc(packages, Compare)
	if slices.ContainsFunc(packages, Resolved.isRPM) {
		return yumRepository(dir, packages, c)
	}
	return aptRepository(dir, packages, c)
}

// IsIndex reports whether Repository makes a file beside the packages, by its path in the repository.
func IsIndex(name string) bool {
	return name == "Packages" || name == "Release" || path.Dir(name) == repodata.Dir || path.Dir(name) == KeysDir
}

// aptRepository makes a flat repository: the packages, Packages with their control files' content, and Release with its hash. A
// host uses it through a source such as "deb [trusted=yes] file:/… ./": it is covered by the signature of the index of the
// archive that carries it.
func aptRepository(dir string, packages []Resolved, c *cache.Cache) ([]bundle.File, error) {
	var index bytes.Buffer
	var files []bundle.File
	archs := make(map[string]bool)
	for _, r := range packages {
		p, err := controlOf(c, r)
		if err == nil {
			err = r.checkIdentity(bundle.HostPackageID{Name: p.Values["Package"], Version: p.Values["Version"], Arch: p.Values["Architecture"]})
		}
		if err != nil {
			return nil, fmt.Errorf("package %s %s for %s: %w", r.Name, r.Version, r.Target, err)
		}
		p.Set("Filename", "./"+r.fileName())
		p.Set("Size", strconv.FormatInt(r.Size, 10))
		p.Set("SHA256", r.SHA256)
		writeParagraph(&index, p)
		if r.Arch != "all" {
			archs[r.Arch] = true
		}
		files = append(files, c.File(path.Join(dir, r.fileName()), r.Blob))
	}
	release := releaseFile(index.Bytes(), archs)
	return append(files, bundle.BytesFile(path.Join(dir, "Packages"), cache.FileMode, index.Bytes()), bundle.BytesFile(path.Join(dir, "Release"), cache.FileMode, release)), nil
}

// releaseDate is the date of every repository, without which apt warns. It is long past, like the date of every file of an
// archive: apt refuses a repository from the future, and on a host without a network any clock may be behind.
const releaseDate = "Tue, 01 Jan 1980 00:00:00 UTC"

func releaseFile(index []byte, archs map[string]bool) []byte {
	var list []string
	for arch := range archs {
		list = append(list, arch)
	}
	slices.Sort(list)
	var b bytes.Buffer
	fmt.Fprintf(&b, "Origin: Sealift\nLabel: Sealift\nSuite: ./\nDate: %s\nArchitectures: %s\n", releaseDate, strings.Join(append(list, "all"), " "))
	fmt.Fprintf(&b, "SHA256:\n %x %d Packages\n", sha256.Sum256(index), len(index))
	return b.Bytes()
}

// controlOf reads the control file of a cached package.
func controlOf(c *cache.Cache, r Resolved) (*control.Paragraph, error) {
	f, err := c.Open(r.SHA256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, closer, err := debfile.Open(f, debfile.Control)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return controlFile(files)
}

// maxControl bounds a control file, in bytes; the largest in Debian has some ten thousand.
const maxControl = 1 << 20

func controlFile(files *tar.Reader) (*control.Paragraph, error) {
	for {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s has no control file: %w", debfile.Control, err)
		}
		if path.Clean(header.Name) != "control" {
			continue
		}
		paragraphs, err := control.NewParagraphReader(io.LimitReader(files, maxControl), nil)
		if err != nil {
			return nil, fmt.Errorf("read the control file: %w", err)
		}
		p, err := paragraphs.Next()
		if err != nil {
			return nil, fmt.Errorf("read the control file: %w", err)
		}
		return p, nil
	}
}

// KeysDir is the folder of a yum repository that has the armored keys of its packages, which a host checks their
// signatures with.
const KeysDir = "keys"

// yumRepository makes a repository of rpm packages: the packages, the lists in repodata, and the keys.
func yumRepository(dir string, packages []Resolved, c *cache.Cache) ([]bundle.File, error) {
	var files []bundle.File
	var lists repodata.Writer
	keys := make(map[string]bool)
	for _, r := range packages {
		p, err := headerOf(c, r)
		if err == nil {
			err = r.checkIdentity(rpmID(p.Name, p.Epoch, p.Version, p.Release, p.Arch))
		}
		if err == nil {
			err = lists.Add(p, r.fileName(), r.SHA256, r.Size)
		}
		if err != nil {
			return nil, fmt.Errorf("package %s %s for %s: %w", r.Name, r.Version, r.Target, err)
		}
		files = append(files, c.File(path.Join(dir, r.fileName()), r.Blob))
		if r.Key == "" || keys[r.Key] {
			continue
		}
		keys[r.Key] = true
		data, err := c.Read(r.Key, maxKeys)
		if err != nil {
			return nil, fmt.Errorf("keys of %s: %w", r.Target, err)
		}
		files = append(files, bundle.BytesFile(path.Join(dir, KeysDir, r.Key+".asc"), cache.FileMode, data))
	}
	for _, d := range lists.Documents() {
		files = append(files, bundle.BytesFile(path.Join(dir, d.Path), cache.FileMode, d.Data))
	}
	return files, nil
}

func headerOf(c *cache.Cache, r Resolved) (*repodata.Package, error) {
	f, err := c.Open(r.SHA256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return repodata.Read(bufio.NewReader(f))
}
