package bundle

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Archive is a package or bundle that is read in place, or one whose files are unpacked in a folder or on another node.
type Archive struct {
	Index Index
	// Digest is the sha256 of the index, in hex. It identifies the archive.
	Digest string

	index     []byte // the signed bytes
	signature []byte // of the index; nil if there is none

	src     io.ReaderAt // nil if unpacked
	remote  *remote     // nil if src is local
	first   int64       // length of the index's member
	body    int64       // start of the entries' members
	entries map[string]Entry
	lean    map[string]Entry // lean layers by the paths of the layers that they stand for
	closer  io.Closer
	size    int64         // bytes of all members; 0 if unpacked
	parts   *parts.Reader // nil if in one piece
	local   bool          // its files are unpacked on this machine
	partial bool          // files that the index leaves out are not here
	base    *Archive      // nil, or the archive with these files
	results results       // files that patches made
	// unpacked opens the content of an entry of an unpacked archive; nil if packed.
	unpacked func(Entry) (io.ReadCloser, error)
	// verdict reads the verdict that came with the archive; nil if none can have come.
	verdict func() (verdict.Signed, error)
}

// Open opens an archive file, a folder into which tar unpacked a bundle, or a bundle in parts: name is the folder with the parts, one
// of them, or a list of folders and parts as in PATH. It reads only the index. A truncated file fails
// here, a changed file when the changed entry is read. If trusted keys are given and the index has a signature of another
// key, Open refuses it before parsing, and the error wraps ErrUntrusted. Open accepts archives without a signature;
// VerifySignature decides about them.
func Open(name string, trusted ...signature.PublicKey) (*Archive, error) {
	a, err := open(name, trusted)
	if err == nil {
		a.SetVerdict(func() (verdict.Signed, error) { return verdict.Load(VerdictFile(name)) })
	}
	return a, err
}

func open(name string, trusted []signature.PublicKey) (*Archive, error) {
	if strings.Contains(name, "://") {
		return nil, fmt.Errorf("%s is a URL, and this reads files alone; download it first", name)
	}
	if names := folders(name); names != nil {
		return openParts(names, trusted)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if !hasIndex(name) {
			if a, err := openParts([]string{name}, trusted); !errors.Is(err, parts.ErrNone) {
				return a, err
			}
		}
		return openDir(name, trusted)
	}
	if !info.Mode().IsRegular() { // opening a pipe could block forever
		return nil, fmt.Errorf("%s is neither a file nor a folder; copy the bundle to a file, and name the file", name)
	}
	if parts.IsPart(name) {
		return openParts([]string{name}, trusted)
	}
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, err
	}
	a, err := NewArchive(f, info.Size(), trusted...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	a.closer = f
	return a, nil
}

// Source is a readable archive, such as a value of a store.
type Source interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
}

// OpenSource opens an archive from src. The Archive closes src; if src is not an archive, OpenSource closes it.
func OpenSource(src Source, trusted ...signature.PublicKey) (*Archive, error) {
	a, err := NewArchive(src, src.Size(), trusted...)
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	a.closer = src
	return a, nil
}

func openDir(name string, trusted []signature.PublicKey) (*Archive, error) {
	dir, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	a, err := readUnpacked(dir, trusted)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: not an unpacked bundle: %w; name the archive, or the folder into which tar unpacked it", name, err), dir.Close())
	}
	a.closer = dir
	return a, nil
}

func readUnpacked(dir *os.Root, trusted []signature.PublicKey) (*Archive, error) {
	index, err := readIndexFile(dir)
	if err != nil {
		return nil, err
	}
	sig, err := readSignatureFile(dir)
	if err == nil {
		err = checkSigner(index, sig, trusted)
	}
	if err != nil {
		return nil, err
	}
	a, err := NewUnpacked(index, sig, func(e Entry) (io.ReadCloser, error) { return regularfile.OpenIn(dir, filepath.FromSlash(e.Path)) })
	if err == nil {
		a.local = true
		a.partial = !a.Index.Complete() // tar unpacked no more than the archive has
	}
	return a, err
}

// NewUnpacked returns the archive of an index and its signature, which may be nil. open opens the content of an entry, even of
// one that the bundle omits. The content is verified against the index while it is read. If open returns an io.ReaderAt, parts
// of the content can be read.
func NewUnpacked(index, signature []byte, open func(Entry) (io.ReadCloser, error)) (*Archive, error) {
	x, err := parseIndex(index)
	if err != nil {
		return nil, err
	}
	a := newArchive(x, index)
	a.signature, a.unpacked = signature, open
	return a, nil
}

func readIndexFile(dir *os.Root) ([]byte, error) {
	f, err := regularfile.OpenIn(dir, IndexName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readIndexBytes(f, maxIndexSize)
}

func readIndexBytes(r io.Reader, bound int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, bound+1))
	if err == nil && int64(len(data)) > bound {
		err = fmt.Errorf("index is larger than %d bytes, too much for the size of the archive", bound)
	}
	return data, err
}

// NewArchive reads the index of an archive of size bytes from any source.
func NewArchive(src io.ReaderAt, size int64, trusted ...signature.PublicKey) (*Archive, error) {
	in := &countingReader{r: bufio.NewReaderSize(io.NewSectionReader(src, 0, size), 64<<10)}
	data, err := readIndexMember(in, indexBound(size))
	if err != nil {
		return nil, err
	}
	first := in.n
	signed, sig, err := readSignatureMember(in)
	if in.failed != nil { // an archive whose signature cannot be read is not one without
		return nil, fmt.Errorf("read the signature: %w", in.failed)
	}
	if err == nil {
		err = checkSigner(data, sig, trusted)
	}
	if err != nil {
		return nil, err
	}
	x, err := parseIndex(data)
	if err != nil {
		return nil, err
	}
	body := first
	if signed != x.ownPath() {
		sig = nil // an ordinary file with the name of a signature
	}
	if sig != nil {
		body = in.n
	}
	want := body + int64(len(endOfArchive))
	if n := len(x.Entries); n > 0 {
		want += x.Entries[n-1].Offset + x.Entries[n-1].Length
	}
	switch {
	case size < want:
		return nil, fmt.Errorf("truncated: has %d of %d bytes; copy or download it again", size, want)
	case size > want:
		return nil, fmt.Errorf("has %d extra bytes at its end; copy or download it again", size-want)
	}
	a := newArchive(x, data)
	a.partial = !x.Complete()
	a.src, a.size, a.first, a.body, a.signature = src, size, first, body, sig
	a.remote = newRemote(src, body, x.Entries)
	return a, nil
}

func newArchive(x Index, data []byte) *Archive {
	a := &Archive{Index: x, Digest: sha256hex.Of(data), index: data, entries: make(map[string]Entry, len(x.Entries))}
	for _, e := range x.Entries {
		a.entries[e.Path] = e
	}
	a.lean = leanLayers(x)
	return a
}

// ErrNotPackage reports a bundle where a package is expected.
var ErrNotPackage = errors.New("is a bundle, not a package; use the packages that it contains")

// OpenPackage reads the index of a package of size bytes from any source. A bundle is refused.
func OpenPackage(src io.ReaderAt, size int64, trusted ...signature.PublicKey) (*Archive, error) {
	archive, err := NewArchive(src, size, trusted...)
	if err == nil && archive.Index.Kind != KindPackage {
		return nil, ErrNotPackage
	}
	return archive, err
}

// ErrForeign reports that Sealift did not make the archive.
var ErrForeign = errors.New("not an archive made by sealift, or its beginning is damaged; copy or download it again, or if kURL made it, convert it with 'sealift import'")

// readIndexMember decompresses the first gzip member and returns the index in it.
func readIndexMember(in *countingReader, bound int64) ([]byte, error) {
	notOurs := func(err error) error {
		if in.failed != nil { // nothing is known of the archive
			return fmt.Errorf("read the index: %w", in.failed)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return errors.New("truncated within its index; copy or download it again")
		}
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	gz, err := gzip.NewReader(in)
	if err != nil {
		return nil, notOurs(err)
	}
	gz.Multistream(false)
	entry := tar.NewReader(gz)
	header, err := entry.Next()
	if err != nil {
		return nil, notOurs(err)
	}
	if path.Base(header.Name) != IndexName {
		return nil, fmt.Errorf("%w: its first entry is %q, not %s", ErrForeign, header.Name, IndexName)
	}
	data, err := readIndexBytes(entry, bound)
	if err != nil {
		return nil, notOurs(err)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(gz, blockSize)); err != nil || n >= blockSize {
		return nil, notOurs(errors.Join(err, errors.New("the index does not fill its gzip member")))
	}
	return data, nil
}

// countingReader counts the bytes that the decompressor takes. Because it has ReadByte, the decompressor does not read
// ahead.
type countingReader struct {
	r      *bufio.Reader
	n      int64
	failed error // of a read that did not reach the end, for example of a server or a disk
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, c.keep(err)
}

func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, c.keep(err)
}

func (c *countingReader) keep(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed = err
	}
	return err
}

// Close closes the file and the base archive. Open readers of entries fail after it.
func (a *Archive) Close() error {
	var errs []error
	errs = append(errs, a.results.close())
	for _, one := range []*Archive{a, a.base} {
		if one != nil && one.closer != nil {
			errs = append(errs, one.closer.Close())
		}
	}
	return errors.Join(errs...)
}

// Local reports whether the archive is on this machine, so that many reads of a few bytes are cheap.
func (a *Archive) Local() bool { return a.local || a.unpacked == nil && a.remote == nil }

// Raw returns the bytes of the index and of its signature, as NewUnpacked expects them. The signature may be nil.
func (a *Archive) Raw() (index, signature []byte) { return a.index, a.signature }

// Entry returns the index's entry for a path.
func (a *Archive) Entry(name string) (Entry, bool) {
	e, ok := a.entries[name]
	return e, ok
}

// Package returns the description of one package from the index.
func (a *Archive) Package(name, version string) (PackageInfo, bool) {
	for _, p := range a.Index.Packages {
		if p.Name == name && p.Version == version {
			return p, true
		}
	}
	return PackageInfo{}, false
}

// Versions returns the versions of one package in the archive, in the order of the index: the Installer's first.
func (a *Archive) Versions(name string) (versions []string) {
	for _, p := range a.Index.Packages {
		if p.Name == name {
			versions = append(versions, p.Version)
		}
	}
	return versions
}

// ReadFile reads and verifies one small file of at most limit bytes.
func (a *Archive) ReadFile(name string, limit int64) ([]byte, error) {
	if e, ok := a.entries[name]; ok && e.Size > limit {
		return nil, fmt.Errorf("%s: has %d bytes, more than the limit of %d", name, e.Size, limit)
	}
	r, err := a.OpenEntry(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// Below lists the entries below a folder, at any depth, in the order of the archive.
func (a *Archive) Below(dir string) []Entry {
	var below []Entry
	for _, e := range a.Index.Entries {
		if strings.HasPrefix(e.Path, dir+"/") {
			below = append(below, e)
		}
	}
	return below
}
