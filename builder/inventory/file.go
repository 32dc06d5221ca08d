package inventory

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/debfile"
	"github.com/sealift/sealift/builder/hostpkg/repodata"
	"github.com/sealift/sealift/builder/inventory/osdb"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
)

// maxControl is the largest control file of a package, in bytes.
const maxControl = 1 << 20

// system returns the distribution that a host package of the bundle is for, or "".
func (s *scanner) system(name string) string {
	for _, p := range s.from.Index.Packages {
		for _, h := range p.HostPackages {
			if h.Path == name {
				return h.Target
			}
		}
	}
	return ""
}

// file lists the content of one file outside of images. It returns nil if the file has nothing to list.
func (s *scanner) file(e bundle.Entry) (*File, error) {
	f := &File{Path: e.Path, SHA256: e.SHA256}
	start := make([]byte, min(8, e.Size))
	if err := s.from.ReadAt(e.Path, start, 0); err != nil {
		return nil, err
	}
	var err error
	switch {
	case strings.HasSuffix(e.Path, ".deb") && bytes.HasPrefix(start, []byte("!<arch>\n")):
		err = s.open(e.Path, func(r io.Reader) error { return s.deb(f, r, e.Size) })
	case strings.HasSuffix(e.Path, ".rpm") && bytes.HasPrefix(start, []byte{0xed, 0xab, 0xee, 0xdb}):
		err = s.open(e.Path, func(r io.Reader) error { return s.rpmFile(f, r) })
	case license.IsText(path.Base(e.Path)):
		err = s.open(e.Path, func(r io.Reader) error { return s.textFile(f, r, e) })
	case bytes.HasPrefix(start, []byte(elfMagic)):
		err = s.open(e.Path, func(r io.Reader) error { return s.elf(f, r, e.Size) })
	case bytes.HasPrefix(start, []byte("\x1f\x8b")), bytes.HasPrefix(start, []byte("\x28\xb5\x2f\xfd")), strings.HasSuffix(e.Path, ".tar"):
		err = s.open(e.Path, func(r io.Reader) error { return s.archive(f, r) })
	}
	if hostile, ok := errors.AsType[*unreadable](err); ok {
		f.Unknown, err = append(f.Unknown, hostile.Error()), nil
	}
	if err != nil || (f.Package == nil && len(f.Programs) == 0 && len(f.Unknown) == 0 && len(f.Texts) == 0) {
		return nil, err
	}
	if f.Package != nil {
		f.Package.System = s.system(e.Path)
	}
	return f, nil
}

// elf lists the modules of a program.
func (s *scanner) elf(f *File, r io.Reader, size int64) error {
	read, err := s.program(r, size)
	if err == nil && read != nil {
		f.add(path.Base(f.Path), read)
	}
	return err
}

func (f *File) add(name string, read *found) {
	if read.unread != "" {
		f.Unknown = append(f.Unknown, name+": "+read.unread)
	}
	if read.program != nil {
		p := *read.program
		p.Path = name
		f.Programs = append(f.Programs, p)
	}
}

// archive lists the programs in a tar.
func (s *scanner) archive(f *File, r io.Reader) error {
	t := newTree()
	if err := s.unpack(t, r, "", 1); err != nil {
		if t.count == 0 && !strings.Contains(path.Base(f.Path), ".tar") && !strings.HasSuffix(f.Path, ".tgz") {
			return nil // one compressed file, not an archive
		}
		return err
	}
	f.addTree(t)
	return nil
}

func (f *File) addTree(t *tree) {
	f.Texts = t.texts()
	t.walk(func(name string, read *found) { f.add(name, read) })
	addModules(f.Programs, f.Texts)
	slices.Sort(f.Unknown)
	slices.SortFunc(f.Programs, func(a, b Program) int { return cmp.Compare(a.Path, b.Path) })
}

// rpmFile reads the header of an rpm.
func (s *scanner) rpmFile(f *File, r io.Reader) error {
	p, err := repodata.Read(r)
	if err != nil {
		return err
	}
	c := osdb.Header(p)
	f.Package = &c
	return nil
}

// deb reads a Debian package: what it says about itself, its licenses and its programs.
func (s *scanner) deb(f *File, r io.Reader, size int64) error {
	// Programs in the package need the scanner's spool.
	var whole spool
	defer whole.Close()
	content, err := whole.fill(r, size)
	if err != nil {
		return err
	}
	if err := f.control(io.NewSectionReader(content, 0, size)); err != nil {
		return err
	}
	files, closer, err := debfile.Open(io.NewSectionReader(content, 0, size), debfile.Data)
	if err != nil {
		return err
	}
	defer closer.Close()
	t := newTree()
	if err := s.apply(t, files, "", 1); err != nil {
		return err
	}
	if f.Package != nil {
		if doc := t.copyright(f.Package.Name); doc != nil {
			f.Package.Licenses = doc.licenses
		}
	}
	f.addTree(t)
	return nil
}

func (f *File) control(r io.ReaderAt) error {
	files, closer, err := debfile.Open(r, debfile.Control)
	if err != nil {
		return err
	}
	defer closer.Close()
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if path.Clean("/"+h.Name) != "/control" || h.Typeflag != tar.TypeReg {
			continue
		}
		packages, err := osdb.Dpkg(io.LimitReader(files, maxControl))
		if err != nil {
			return err
		}
		if len(packages) == 1 {
			f.Package = &packages[0]
		}
		return nil
	}
}
