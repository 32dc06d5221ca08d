package inventory

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/builder/inventory/osdb"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/compression"
)

// The bounds of one layer or archive.
const (
	maxUnpacked = 32 << 30 // bytes
	maxEntries  = 2_000_000
	maxText     = 1 << 20   // bytes of an os-release
	maxDatabase = 512 << 20 // bytes of a package database
	maxWindow   = 32 << 20  // bytes of memory for zstd; 8 MiB are customary
)

// The names of whiteouts (image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// found is the content of a file of interest.
type found struct {
	layer    string                // digest
	system   string                // an os-release names it
	packages []component.Component // a package database lists them
	licenses []string              // a copyright file names them
	text     *Text                 // a file with a license or a notice; its path and layer are set when it is listed
	program  *Program              // a Go program
	foreign  bool                  // a program or library that is not of Go
	unread   string                // why it is not known what the file contains
}

// size returns about how much memory the content takes, in bytes.
func (f *found) size() int {
	if f == nil {
		return 0
	}
	size := 100 + len(f.system) + len(f.unread)
	for _, c := range f.packages {
		size += componentSize(c)
	}
	for _, name := range f.licenses {
		size += len(name)
	}
	if f.text != nil {
		size += 200
		for _, name := range f.text.Licenses {
			size += len(name)
		}
	}
	if f.program != nil {
		for _, m := range f.program.Modules {
			size += componentSize(m)
		}
	}
	return size
}

func componentSize(c component.Component) int {
	size := 150 + len(c.Name) + len(c.Version) + len(c.Arch) + len(c.Source) + len(c.SourceVersion)
	for _, license := range c.Licenses {
		size += len(license)
	}
	return size
}

// unreadable reports content that is not in the form that it should have, or exceeds a bound. It says nothing against the bundle.
type unreadable struct{ err error }

func (u *unreadable) Error() string { return u.err.Error() }
func (u *unreadable) Unwrap() error { return u.err }

// scanner reads content of one bundle. Only one goroutine may use it.
type scanner struct {
	ctx   context.Context
	from  *bundle.Archive
	keep  func(sha256 string, text []byte) error // or nil
	spool spool
}

// source remembers the error of reading the bundle, so that it is not mistaken for a damaged layer.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// open calls read with the content of a file of the bundle. It reads all of it, so that it is verified. An error of read is unreadable,
// unless the bundle is damaged.
func (s *scanner) open(name string, read func(io.Reader) error) error {
	return s.openWith(func() (io.ReadCloser, error) { return s.from.OpenEntry(name) }, read)
}

// openWith is open for content that a function opens.
func (s *scanner) openWith(open func() (io.ReadCloser, error), read func(io.Reader) error) error {
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	src := &source{ctx: s.ctx, r: content}
	err = read(src)
	if src.err == nil {
		_, _ = io.Copy(io.Discard, src)
	}
	if src.err != nil {
		return src.err
	}
	if isA[*spoolError](err) || isA[*keepError](err) {
		return err
	}
	if err != nil {
		return &unreadable{err}
	}
	return nil
}

// layer applies a layer of an image to a tree. Layers are numbered from 0. A lean layer is verified by what it unpacks to.
func (s *scanner) layer(t *tree, i *opened, n int) error {
	layer := i.Layers[n]
	name := i.layout.Blob(digest.Digest(layer))
	read := func(r io.Reader) error { return s.unpack(t, r, layer, n+1) }
	if lean, ok := s.from.LeanLayer(name); ok {
		if n >= len(i.diffIDs) || i.diffIDs[n].Encoded() != lean.Layer.DiffID {
			return &unreadable{errMisnamed}
		}
		return s.openWith(func() (io.ReadCloser, error) { return s.from.OpenLayer(lean.Path) }, read)
	}
	e, ok := s.from.Entry(name)
	if !ok {
		return &unreadable{errors.New("it is not in the bundle")}
	}
	if "sha256:"+e.SHA256 != layer {
		return &unreadable{errMisnamed}
	}
	return s.open(name, read)
}

// unpack reads a tar, compressed or not.
func (s *scanner) unpack(t *tree, r io.Reader, digest string, number int) error {
	plain, err := compression.NewReader(r, maxWindow)
	if err != nil {
		return err
	}
	defer plain.Close()
	limited := &io.LimitedReader{R: plain, N: maxUnpacked}
	err = s.apply(t, tar.NewReader(limited), digest, number)
	if limited.N <= 0 {
		return fmt.Errorf("it unpacks to more than %d GiB", maxUnpacked>>30)
	}
	return err
}

// apply applies the entries of a tar to a tree.
func (s *scanner) apply(t *tree, in *tar.Reader, digest string, number int) error {
	for count := 0; ; count++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read its tar: %w", err)
		}
		if count > maxEntries || t.visits > maxVisits {
			return errTooLarge
		}
		name, err := t.resolve(h.Name)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if err := s.entry(t, in, h, name, digest, number); err != nil {
			return err
		}
	}
}

func (s *scanner) entry(t *tree, in io.Reader, h *tar.Header, name, digest string, number int) error {
	dir, base := path.Split(name)
	if base == opaque {
		t.emptyBefore(t.get(strings.TrimSuffix(dir, "/")), number)
		return nil
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		if hidden != "" && hidden != "." && hidden != ".." && !strings.HasPrefix(hidden, whiteout) {
			t.removeBefore(dir+hidden, number)
		}
		return nil
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if n := t.get(name); n != nil && (n.link != "" || n.found != nil) {
			t.remove(name)
		}
		return nil
	case tar.TypeSymlink:
		if len(h.Linkname) > maxPath {
			return errBadPath
		}
		return t.put(name, &node{layer: number, link: h.Linkname})
	case tar.TypeLink:
		return t.hardLink(name, h.Linkname, digest, number)
	case tar.TypeReg:
		f, err := s.regular(in, h, name)
		if err != nil {
			return err
		}
		if f == nil {
			t.remove(name)
			return nil
		}
		f.layer = digest
		return t.put(name, &node{layer: number, found: f})
	}
	t.remove(name) // a device or a pipe
	return nil
}

// hardLink gives a file a second name.
func (t *tree) hardLink(name, target, digest string, number int) error {
	real, err := t.resolve(target)
	if err != nil {
		return err
	}
	n := t.get(real)
	if n == nil || (n.found == nil && n.link == "") {
		t.remove(name)
		return nil
	}
	if real == name {
		return nil
	}
	linked := node{layer: number, link: n.link}
	if n.found != nil {
		f := *n.found
		f.layer = digest
		linked.found = &f
	}
	return t.put(name, &linked)
}

// lookup returns the file of interest at a path, following symbolic links, or nil.
func (t *tree) lookup(name string) *found {
	for range maxLinks {
		real, err := t.resolve(name)
		if err != nil {
			return nil
		}
		n := t.get(real)
		if n == nil || n.link == "" {
			if n == nil {
				return nil
			}
			return n.found
		}
		if name = n.link; !strings.HasPrefix(name, "/") {
			name = path.Join(path.Dir(real), name)
		}
	}
	return nil
}

// regular reads a regular file, if it is of interest.
func (s *scanner) regular(in io.Reader, h *tar.Header, name string) (*found, error) {
	dir, base := path.Split(name)
	switch {
	case name == "etc/os-release" || name == "usr/lib/os-release":
		text, err := io.ReadAll(io.LimitReader(in, maxText))
		return &found{system: osdb.System(string(text))}, err
	case name == "var/lib/dpkg/status", dir == "var/lib/dpkg/status.d/" && !strings.HasSuffix(base, ".md5sums"):
		return database(osdb.Dpkg(in))
	case name == "lib/apk/db/installed", name == "usr/lib/apk/db/installed":
		return database(osdb.Apk(in))
	case dir == "var/lib/rpm/" || dir == "usr/lib/sysimage/rpm/":
		return s.rpm(in, h, base)
	case license.IsText(name):
		return s.text(in, h, name)
	}
	return s.program(in, h.Size)
}

// database turns packages into a file of interest. What cannot be read is a fact about the image, not an error.
func database(packages []component.Component, err error) (*found, error) {
	if err != nil {
		return &found{unread: err.Error()}, nil //nolint:nilerr // see above
	}
	if len(packages) == 0 {
		return nil, nil
	}
	return &found{packages: packages}, nil
}

// rpm reads a file of the folder with rpm's database.
func (s *scanner) rpm(in io.Reader, h *tar.Header, base string) (*found, error) {
	switch base {
	case "rpmdb.sqlite", "Packages.db", "Packages":
		if h.Size > maxDatabase {
			return &found{unread: fmt.Sprintf("it has %d bytes", h.Size)}, nil
		}
		r, err := s.spool.fill(in, h.Size)
		if err != nil {
			return nil, err
		}
		return database(osdb.RPM(r, h.Size))
	case "rpmdb.sqlite-wal":
		if h.Size > 0 {
			return &found{unread: "rpm's database has changes in a write-ahead log, which is not read"}, nil
		}
	}
	return nil, nil
}
