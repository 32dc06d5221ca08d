package bundle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/atomicfile"
)

// spoolSize is the size from which deflated content is kept in a file instead of in memory.
const spoolSize = 1 << 20

// linkSize is the size from which repeated content becomes a hard link. Smaller files are repeated: people may edit them
// after unpacking, and a link would change both.
const linkSize = 4 << 10

// WriteOptions are the options for writing an archive.
type WriteOptions struct {
	// Spool is a folder for the deflated content of large files, by digest, so that the next archive need not compress the
	// same file again. If empty, a temporary folder is used and removed.
	Spool string
	// Plain deflates nothing. It suits an archive that is read once, and not kept.
	Plain bool
	// Jobs is the number of files that are compressed at once, and also written at once if the output is a file. Zero means
	// one.
	Jobs int
	// Key signs the index. nil means no signature.
	Key *signature.Key
	// Sum, if not nil, receives every byte of the archive in order, without a second read of the output.
	Sum io.Writer
}

// piece is a file with everything that is known about its member before it is written.
type piece struct {
	entry   Entry
	header  []byte
	open    func() (io.ReadCloser, error) // the content, or its deflated form
	spooled string                        // the file of the deflated form, if it has one
	from    section                       // the whole member, in a bundle
	checked bool                          // the content is stored and is known to be the entry's
}

// WritePackage writes the archive of one add-on and returns its index. The same package and key yield the same bytes, whatever
// the other options are. While it writes, it verifies the size and digest of each file that is not yet Checked.
func WritePackage(ctx context.Context, w io.Writer, p Package, o WriteOptions) (Index, error) {
	info := PackageInfo{Name: p.Name, Version: p.Version, Targets: p.Targets, Contents: p.Contents}
	index := Index{Kind: KindPackage, Platforms: p.Platforms, Packages: []PackageInfo{info}}
	pw := &packer{options: o}
	defer pw.cleanup()
	files := slices.SortedFunc(slices.Values(p.Files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	pieces, err := pw.prepare(ctx, files)
	if err != nil {
		return Index{}, err
	}
	return index, pw.write(ctx, w, &index, pieces)
}

// packer turns files into members.
type packer struct {
	options WriteOptions
	spool   string             // folder of large deflated content
	temp    *atomicfile.Folder // the same folder, if it is temporary
}

// spools is the name pattern of temporary folders for deflated content.
const spools = "sealift-spool-*"

func (p *packer) cleanup() {
	if p.temp != nil {
		_ = p.temp.Remove()
	}
}

// prepare determines the encoding and exact length of every member, in parallel. It compresses the files that can be
// compressed.
func (p *packer) prepare(ctx context.Context, files []File) ([]piece, error) {
	if p.spool = p.options.Spool; p.spool == "" {
		if err := atomicfile.Sweep(os.TempDir(), spools); err != nil {
			return nil, err
		}
		dir, err := atomicfile.MkdirTemp("", spools)
		if err != nil {
			return nil, err
		}
		p.spool, p.temp = dir.Path, dir
	} else if err := os.MkdirAll(p.spool, 0o755); err != nil {
		return nil, err
	}
	pieces := make([]piece, len(files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, p.options.Jobs))
	for i, f := range files {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			if pieces[i], err = p.piece(f); err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
			return nil
		})
	}
	return pieces, group.Wait()
}

func (p *packer) piece(f File) (piece, error) {
	e := Entry{Path: f.Path, Mode: FileMode(f.Mode.Perm()), Size: f.Size, SHA256: f.SHA256, Encoding: Stored, Layer: f.Layer}
	header, err := tarHeader(e)
	if err != nil {
		return piece{}, err
	}
	e.Header = int64(len(header))
	out := piece{entry: e, header: header, open: f.Open}
	out.entry.Length = storedLength(e.Header, e.Size)
	content, err := f.Open()
	if err != nil {
		return piece{}, err
	}
	defer content.Close()
	head := make([]byte, 8)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return piece{}, err
	}
	if f.Size == 0 || p.options.Plain || f.Layer != nil || isCompressed(head[:n]) {
		out.checked = f.Checked
		return out, nil
	}
	return p.deflate(out, io.MultiReader(bytes.NewReader(head[:n]), content))
}

// deflate compresses the content of a piece, unless that makes it larger.
func (p *packer) deflate(out piece, content io.Reader) (piece, error) {
	stored := out
	var n int64
	if out.entry.Size < spoolSize {
		var buf bytes.Buffer
		if err := deflateContent(&buf, content); err != nil {
			return piece{}, err
		}
		data := buf.Bytes()
		n = int64(len(data))
		out.open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	} else {
		var err error
		out.spooled = filepath.Join(p.spool, fmt.Sprintf("%s.deflate-%d", out.entry.SHA256, compressionLevel))
		if n, err = deflateToFile(out.spooled, content); err != nil {
			return piece{}, err
		}
		out.open = func() (io.ReadCloser, error) { return os.Open(out.spooled) }
	}
	length := deflatedLength(out.entry.Header, out.entry.Size, n)
	if length >= stored.entry.Length {
		return stored, nil
	}
	out.entry.Encoding, out.entry.Length = Deflate, length
	return out, nil
}

// deflateToFile writes the deflated content unless the file exists, and returns its length.
func deflateToFile(name string, content io.Reader) (int64, error) {
	if info, err := os.Stat(name); err == nil {
		return info.Size(), nil
	}
	if err := atomicfile.Fill(name, 0o644, func(w *os.File) error { return deflateContent(w, content) }); err != nil {
		return 0, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// layOut turns repeated content into links and assigns every piece its offset.
func layOut(pieces []piece) ([]Entry, error) {
	type content struct {
		sha256 string
		mode   FileMode
	}
	first := make(map[content]string)
	entries := make([]Entry, len(pieces))
	var offset int64
	for i := range pieces {
		e := &pieces[i].entry
		if e.absent() {
			e.Offset = offset
			entries[i] = *e
			continue
		}
		key := content{e.SHA256, e.Mode}
		if target, dup := first[key]; dup && e.Size >= linkSize {
			*e = Entry{Path: e.Path, Mode: e.Mode, Size: e.Size, SHA256: e.SHA256, Encoding: Link, Link: target, Layer: e.Layer}
			header, err := tarHeader(*e)
			if err != nil {
				return nil, err
			}
			e.Header, e.Length = int64(len(header)), storedLength(int64(len(header)), 0)
			pieces[i] = piece{entry: *e, header: header}
			e = &pieces[i].entry
		} else if !dup {
			first[key] = e.Path
		}
		e.Offset = offset
		offset += e.Length
		entries[i] = *e
	}
	return entries, nil
}

// write writes the index, the members and the end of the tar to w.
func (p *packer) write(ctx context.Context, w io.Writer, index *Index, pieces []piece) (err error) {
	if index.Entries, err = layOut(pieces); err != nil {
		return err
	}
	index.Format = format(index.Entries)
	if err := index.validate(); err != nil {
		return err
	}
	data, err := index.marshal()
	if err != nil {
		return err
	}
	f, isFile := w.(*os.File)
	if p.options.Sum != nil {
		w = io.MultiWriter(w, p.options.Sum)
	}
	if err := writeIndex(w, index.ownPath(), data); err != nil {
		return err
	}
	if p.options.Key != nil {
		if err := writeSignature(w, index.ownPath(), data, p.options.Key); err != nil {
			return err
		}
	}
	if isFile && p.options.Jobs > 1 {
		err = writeSideBySide(ctx, f, pieces, p.options)
	} else {
		err = writeInOrder(ctx, w, pieces)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(endOfArchive)
	return err
}

func writeInOrder(ctx context.Context, w io.Writer, pieces []piece) error {
	for _, p := range pieces {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.write(w); err != nil {
			return fmt.Errorf("%s: %w", p.entry.Path, err)
		}
	}
	return nil
}

func writeIndex(w io.Writer, name string, data []byte) error {
	header, err := tarHeader(Entry{Path: name, Mode: 0o644, Size: int64(len(data))})
	if err != nil {
		return err
	}
	var deflated bytes.Buffer
	if err := deflateContent(&deflated, bytes.NewReader(data)); err != nil {
		return err
	}
	return deflateMember(w, header, &deflated, int64(len(data)), io.Discard)
}

func (p piece) write(w io.Writer) error {
	if p.entry.Encoding == Link {
		return storeMember(w, p.header, bytes.NewReader(nil), 0)
	}
	err := p.writeContent(w)
	if err != nil && p.spooled != "" { // the spooled form may be broken: compress again next time
		_ = os.Remove(p.spooled)
	}
	return err
}

func (p piece) writeContent(w io.Writer) error {
	src, err := p.open()
	if err != nil {
		return err
	}
	defer src.Close()
	if p.checked {
		return storeMember(w, p.header, io.LimitReader(src, p.entry.Size), p.entry.Size)
	}
	sum := sha256.New()
	if p.entry.Encoding == Deflate {
		err = deflateMember(w, p.header, src, p.entry.Size, sum)
	} else {
		err = storeMember(w, p.header, io.TeeReader(io.LimitReader(src, p.entry.Size), sum), p.entry.Size)
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != p.entry.SHA256 {
		return &DigestError{Path: p.entry.Path, Got: got, Want: p.entry.SHA256}
	}
	return nil
}

// DigestError reports that content does not match the digest in an index or from its source.
type DigestError struct {
	Path      string
	Got, Want string // sha256, hex
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s: content has sha256 %s, want %s", e.Path, e.Got, e.Want)
}
