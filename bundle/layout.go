package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Bundle lists the parts of a bundle.
type Bundle struct {
	Members  []*Member  // at the root, before all packages: install.sh, the Installer, the binary
	Packages []*Archive // in the order of the Installer
	// Lean has, for each package, nil or an archive on this machine with lean layers of the package. They replace the package's own
	// layers. An empty list replaces nothing.
	Lean []*Archive
	// Since leaves out the files of an earlier bundle. Installing this bundle then needs both. nil leaves out nothing.
	Since *Since
	// Patched has the files that a patch makes of files of the earlier bundle, or of other files of this one, by their paths, or by those of
	// their plain layers in the packages. Members has the patches.
	Patched map[string]Entry
	// Key signs the index, if it is not nil.
	Key *signature.Key
}

// Layout is the plan of a bundle: its exact length, and the package that each byte range comes from. It is made from
// indexes alone. The members of the packages are copied unchanged, with their indexes. Content that several packages share
// is in the bundle once.
type Layout struct {
	Index Index
	// Digest is the sha256 of the index, in hex. It identifies the bundle.
	Digest string
	// IndexData is the index as written in the bundle.
	IndexData []byte
	// Tag identifies the bytes of this bundle, independent of the store of its packages. It is computed from the first members,
	// the index and its signature. The compressed form of a member enters it only by its length in the index.
	Tag string

	sections []section
	size     int64
}

// section is a byte range of a bundle with its source.
type section struct {
	at, size int64
	pkg      int         // index of the source package, if src is nil
	src      io.ReaderAt // the source, if it is not a package
	off      int64       // in the package or in src
}

// NewLayout plans a bundle. It reads only the indexes of the packages.
func NewLayout(b Bundle) (*Layout, error) {
	l := &Layout{Index: Index{Kind: KindBundle}}
	var pieces []piece
	for _, m := range b.Members {
		p := piece{entry: m.entry, from: section{src: m.data, size: m.entry.Length}}
		if made, ok := b.Patched[m.entry.Path]; ok {
			p = piece{entry: made}
		}
		if left, ok := b.Since.LeftMember(m.entry); ok {
			p = piece{entry: left}
		}
		pieces = append(pieces, p)
	}
	for n, a := range b.Packages {
		if err := l.Index.addPackage(a); err != nil {
			return nil, err
		}
		var lean *Archive
		if n < len(b.Lean) {
			lean = b.Lean[n]
		}
		own, err := packagePieces(a, n, lean, b.Since, b.Patched)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, own...)
	}
	if b.Since != nil {
		l.Index.Base = b.Since.digest
	}
	var err error
	if l.Index.Entries, err = layOut(pieces); err != nil {
		return nil, err
	}
	l.Index.Format = format(l.Index.Entries)
	if err := l.Index.validate(); err != nil {
		return nil, err
	}
	if l.IndexData, err = l.Index.marshal(); err != nil {
		return nil, err
	}
	l.Digest = sha256hex.Of(l.IndexData)
	return l, l.assignOffsets(pieces, b.Key)
}

// packagePieces returns the members of a package in bundle order: its index, its signature, its files. Files that the earlier bundle
// has are left out in the form that it has.
func packagePieces(a *Archive, n int, lean *Archive, since *Since, patched map[string]Entry) ([]piece, error) {
	index, err := a.indexEntry()
	if err != nil {
		return nil, err
	}
	pieces := []piece{{entry: index, from: section{pkg: n, size: a.first}}}
	if a.signature != nil {
		e := Entry{
			Path: a.Index.ownPath() + signatureSuffix, Mode: 0o644, Size: int64(len(a.signature)), SHA256: sha256hex.Of(a.signature),
			Encoding: Stored, Length: a.body - a.first,
		}
		header, err := tarHeader(e)
		if err != nil {
			return nil, err
		}
		e.Header = int64(len(header))
		pieces = append(pieces, piece{entry: e, from: section{pkg: n, off: a.first, size: e.Length}})
	}
	taken := make(map[string]bool) // two layers may unpack to the same
	for _, e := range a.Index.Entries {
		p := piece{entry: e, from: section{pkg: n, off: a.body + e.Offset, size: e.Length}}
		var form *Entry
		if l, ok := lean.leanLayer(e); ok {
			form = &l
			p = piece{entry: l, from: section{src: lean.src, off: lean.body + l.Offset, size: l.Length}}
		}
		if made, ok := patched[e.Path]; ok {
			p = piece{entry: made}
		}
		if made, ok := patched[e.Link]; ok && e.Encoding == Link && made.SHA256 == e.SHA256 { // a link needs a member
			made.Path, made.Mode = e.Path, e.Mode
			p = piece{entry: made}
		}
		if left, ok := since.Left(e, form); ok && !taken[left.Path] {
			taken[left.Path] = true
			p = piece{entry: left}
		}
		pieces = append(pieces, p)
	}
	return pieces, nil
}

// leanLayer returns the lean form of a layer of a package.
func (a *Archive) leanLayer(e Entry) (Entry, bool) {
	if a == nil || a.src == nil {
		return Entry{}, false
	}
	return a.LeanLayer(e.Path)
}

// assignOffsets places the sections in sequence. Ranges that are adjacent in their package become one section.
func (l *Layout) assignOffsets(pieces []piece, key *signature.Key) error {
	var front bytes.Buffer
	if err := writeIndex(&front, IndexName, l.IndexData); err != nil {
		return err
	}
	if key != nil {
		if err := writeSignature(&front, IndexName, l.IndexData, key); err != nil {
			return err
		}
	}
	l.Tag = sha256hex.Of(front.Bytes())
	l.inline(front.Bytes())
	for _, p := range pieces {
		switch p.entry.Encoding {
		case InBase, Patched:
		case Link:
			var member bytes.Buffer
			if err := storeMember(&member, p.header, bytes.NewReader(nil), 0); err != nil {
				return err
			}
			l.inline(member.Bytes())
		default:
			l.add(p.from)
		}
	}
	l.inline(endOfArchive)
	return nil
}

func (l *Layout) inline(data []byte) {
	l.add(section{src: bytes.NewReader(data), size: int64(len(data))})
}

func (l *Layout) add(s section) {
	s.at = l.size
	l.size += s.size
	if n := len(l.sections) - 1; n >= 0 && s.src == nil {
		if last := &l.sections[n]; last.src == nil && last.pkg == s.pkg && last.off+last.size == s.off {
			last.size += s.size
			return
		}
	}
	l.sections = append(l.sections, s)
}

// Size returns the length of the bundle in bytes.
func (l *Layout) Size() int64 { return l.size }

// Reader returns a reader of the bundle. packages are the packages of the plan, in its order, or others with the same
// bytes.
func (l *Layout) Reader(packages []io.ReaderAt) io.ReaderAt { return &layoutReader{l, packages} }

type layoutReader struct {
	*Layout
	packages []io.ReaderAt
}

// source returns the reader that has the section's bytes.
func (r *layoutReader) source(s section) io.ReaderAt {
	if s.src != nil {
		return s.src
	}
	return r.packages[s.pkg]
}

// ReadAt implements io.ReaderAt.
func (r *layoutReader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read the bundle at %d: no such offset", off)
	}
	for i := r.find(off); n < len(p); i++ {
		if i == len(r.sections) {
			return n, io.EOF
		}
		s := r.sections[i]
		within := off + int64(n) - s.at
		want := min(int64(len(p)-n), s.size-within)
		k, err := r.source(s).ReadAt(p[n:n+int(want)], s.off+within)
		n += k
		if int64(k) < want {
			if err == nil || errors.Is(err, io.EOF) {
				err = fmt.Errorf("a package is shorter than planned: %w", io.ErrUnexpectedEOF)
			}
			return n, err
		}
	}
	return n, nil
}

// find returns the number of the section that has the byte at off, or the number of sections.
func (l *Layout) find(off int64) int {
	return sort.Search(len(l.sections), func(i int) bool { return l.sections[i].at+l.sections[i].size > off })
}

// Write writes the whole bundle.
func (l *Layout) Write(ctx context.Context, w io.Writer, packages []io.ReaderAt) error {
	r := &layoutReader{l, packages}
	to := newRangeCopier(w)
	for _, s := range l.sections {
		if err := to.copy(ctx, r.source(s), s.off, s.size); err != nil {
			if s.src == nil {
				err = fmt.Errorf("copy out of the package %s %s: %w", l.Index.Packages[s.pkg].Name, l.Index.Packages[s.pkg].Version, err)
			}
			return err
		}
	}
	return nil
}

// WriteBundle writes the archive of one Installer and returns its index.
func WriteBundle(ctx context.Context, w io.Writer, b Bundle) (Index, error) {
	l, err := NewLayout(b)
	if err != nil {
		return Index{}, err
	}
	var packages []io.ReaderAt
	for _, a := range b.Packages {
		packages = append(packages, a.src)
	}
	return l.Index, l.Write(ctx, w, packages)
}

func (x *Index) addPackage(a *Archive) error {
	if a.Index.Kind != KindPackage || a.src == nil {
		return errors.New("only packages can be bundled")
	}
	info := a.Index.Packages[0]
	for _, other := range x.Packages {
		if other.Name == info.Name && other.Version == info.Version {
			return fmt.Errorf("add-on %s is listed twice, as %s", info.Name, info.Version)
		}
	}
	if len(x.Packages) == 0 {
		x.Platforms = slices.Clone(a.Index.Platforms)
	}
	x.Platforms = slices.DeleteFunc(x.Platforms, func(p string) bool { return !slices.Contains(a.Index.Platforms, p) })
	if len(x.Platforms) == 0 {
		return fmt.Errorf("package %s %s is for %v, unlike the packages before it", info.Name, info.Version, a.Index.Platforms)
	}
	info.Index = a.Digest
	x.Packages = append(x.Packages, info)
	return nil
}

// indexEntry returns the package's own index as an entry of a bundle: its first member, byte for byte.
func (a *Archive) indexEntry() (Entry, error) {
	e := Entry{
		Path: a.Index.ownPath(), Mode: 0o644, Size: int64(len(a.index)), SHA256: a.Digest, Encoding: Deflate, Length: a.first,
	}
	header, err := tarHeader(e)
	e.Header = int64(len(header))
	return e, err
}
