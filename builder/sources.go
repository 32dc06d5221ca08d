package builder

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
)

// Sources are all that a build of one add-on reads from its repository, packed for a build on another machine.
type Sources struct {
	Name    string
	Version string
	Dir     string   // of the add-on in the repository
	Vouched []string // for Options.Vouched
	// Licenses is the digest of the policy of licenses that holds today. A package that met an earlier one is to be looked at again.
	Licenses string
}

// Sources writes all that a build of the add-on in dir reads as a compressed tar archive. The same files yield the same bytes. It
// refuses an add-on that cannot be built elsewhere, because something is not locked or a Dockerfile has to run. The builder must have
// been made with Locked. Mistakes are a diag.Errors with every fault.
func (b *Builder) Sources(ctx context.Context, dir string, to io.Writer) (s Sources, err error) {
	a, err := openAddOn(dir)
	if err != nil {
		return s, err
	}
	defer a.close()
	if b.kinds.NeedsEngine(a.manifest) {
		return s, fmt.Errorf("add-on %s: its Manifest has dockerout, and Dockerfiles need a container engine; build it on this machine", dir)
	}
	r, err := b.resolve(ctx, a)
	if err != nil {
		return s, err
	}
	l, err := a.lock()
	if err != nil {
		return s, err
	}
	s = Sources{Name: a.name, Version: a.version, Dir: path.Join(a.parent, a.version)}
	for _, t := range l.Targets {
		for _, p := range t.Packages {
			if p.Key == "" { // the signature of an rpm is checked wherever it is fetched
				s.Vouched = append(s.Vouched, p.SHA256)
			}
		}
	}
	slices.Sort(s.Vouched)
	s.Vouched = slices.Compact(s.Vouched)
	if s.Licenses, err = b.licenses.Current(time.Now()).Digest(); err != nil {
		return s, err
	}
	files, err := a.sources(s.Dir, b.describe(a, r).Contents.Assets)
	if err == nil {
		err = packSources(to, files)
	}
	return s, err
}

// sources lists the add-on's own files below dir, its lock, and files elsewhere in the repository that are assets.
func (a *addOn) sources(dir string, assets []bundle.Asset) ([]bundle.File, error) {
	files, err := a.files(dir)
	if err != nil {
		return nil, err
	}
	names := []string{lock.FileName}
	for _, asset := range assets {
		if !strings.Contains(asset.Source, "://") {
			names = append(names, asset.Source)
		}
	}
	for _, named := range names {
		name, err := a.repository.Name(a.dir, named)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(files, func(f bundle.File) bool { return f.Path == name }) {
			continue
		}
		f, err := a.open(named)
		if errors.Is(err, os.ErrNotExist) && named == lock.FileName { // an add-on that needs nothing
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("add-on %s: %w", a.named, err)
		}
		info, err := f.Stat()
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("add-on %s: %w", a.named, err)
		}
		files = append(files, bundle.File{Path: name, Mode: 0o644, Size: info.Size(), Open: func() (io.ReadCloser, error) { return a.open(named) }})
	}
	slices.SortFunc(files, func(a, b bundle.File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

func packSources(to io.Writer, files []bundle.File) error {
	zip := gzip.NewWriter(to)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		if err := packSource(archive, f); err != nil {
			return fmt.Errorf("pack %s: %w", f.Path, err)
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

func packSource(archive *tar.Writer, f bundle.File) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	header := &tar.Header{Name: f.Path, Mode: int64(f.Mode), Size: f.Size, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(archive, content, f.Size) // a file that shrinks in the meantime is an error
	return err
}

// maxSources is the most that sources may have when they are unpacked, in bytes.
const maxSources = 4 << 30

// UnpackSources writes packed sources into an empty folder. A file located outside is an error.
func UnpackSources(from io.Reader, dir string) error {
	// Nothing above the folder belongs to the repository.
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	zip, err := gzip.NewReader(from)
	if err != nil {
		return fmt.Errorf("unpack sources: %w", err)
	}
	archive := tar.NewReader(io.LimitReader(zip, maxSources))
	left := int64(maxSources) // a sparse entry has more than the archive inflates to
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			if left -= header.Size; left < 0 {
				return fmt.Errorf("unpack sources: they have more than %d bytes", int64(maxSources))
			}
			err = unpackSource(root, header, archive)
		}
		if err != nil {
			return fmt.Errorf("unpack sources: %w", err)
		}
	}
}

func unpackSource(root *os.Root, header *tar.Header, content io.Reader) error {
	if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) || header.Mode&^0o755 != 0 {
		return fmt.Errorf("%q is not a file of a repository", header.Name)
	}
	if err := root.MkdirAll(path.Dir(header.Name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(header.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(header.Mode))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
