package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// OpenEntry reads one file. The reader verifies: where it would report the end of the file, it reports a DigestError if
// the content is not what the index says. Nothing of it may be trusted before that.
func (a *Archive) OpenEntry(name string) (io.ReadCloser, error) {
	e, ok := a.entries[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w in the archive", name, fs.ErrNotExist)
	}
	return a.openEntry(e, alone)
}

// alone says of an entry that nothing behind it is going to be read.
const alone = -1

// openEntry opens an entry for one who goes on reading for ahead bytes behind its member, or alone.
func (a *Archive) openEntry(e Entry, ahead int64) (io.ReadCloser, error) {
	if e.Encoding == InBase {
		base, at, err := a.inBase(e)
		if err != nil {
			return nil, err
		}
		return base.OpenEntry(at)
	}
	c, err := a.open(e, ahead)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	return newVerifiedReader(e, c), nil
}

// OpenRest reads one file from a byte on, for those who have what is before it. Nothing is verified: whoever puts both together
// holds the whole against its digest.
func (a *Archive) OpenRest(name string, from int64) (io.ReadCloser, error) {
	e, ok := a.entries[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w in the archive", name, fs.ErrNotExist)
	}
	if from < 0 || from > e.Size {
		return nil, fmt.Errorf("%s: has %d bytes, and cannot be read from %d on", name, e.Size, from)
	}
	if e.Encoding == InBase {
		base, at, err := a.inBase(e)
		if err != nil {
			return nil, err
		}
		return base.OpenRest(at, from)
	}
	if b := a.bearer(e); a.unpacked == nil && b.Encoding == Stored {
		return io.NopCloser(io.NewSectionReader(a.stored(b, b.Size, 0), from, b.Size-from)), nil
	}
	c, err := a.open(e, alone)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := skip(c, from); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), c.Close())
	}
	return struct { // a deflated content does not know its end
		io.Reader
		io.Closer
	}{io.LimitReader(c, e.Size-from), c}, nil
}

// skip brings a content to an offset: a file that lies by itself need not be read for that.
func skip(c content, off int64) error {
	if file, ok := c.(bare); ok {
		if seeker, ok := file.ReadCloser.(io.Seeker); ok {
			_, err := seeker.Seek(off, io.SeekStart)
			return err
		}
	}
	_, err := io.CopyN(io.Discard, c, off)
	return err
}

// content is that of an entry. After its last byte, finish holds what the member has around it against the index.
type content interface {
	io.ReadCloser
	finish() error
}

func (a *Archive) open(e Entry, ahead int64) (content, error) {
	if a.unpacked != nil {
		file, err := a.unpacked(e)
		return bare{file}, err
	}
	if e.Encoding == Link { // the bytes are elsewhere
		e, ahead = a.bearer(e), alone
	}
	return framed(e, a.member(e, ahead)), nil
}

// bare is a content that is in no member.
type bare struct{ io.ReadCloser }

func (bare) finish() error { return nil }

// bearer is the entry whose member has the content of e: e itself, or what it links to.
func (a *Archive) bearer(e Entry) Entry {
	if e.Encoding == Link {
		return a.entries[e.Link]
	}
	return e
}

// member is the byte range of an entry in the archive.
func (a *Archive) member(e Entry, ahead int64) *io.SectionReader {
	from := a.body + e.Offset
	src := a.src
	if a.far != nil {
		src = a.far.reader(from, from+e.Length, ahead)
	}
	return io.NewSectionReader(src, from, e.Length)
}

// ReadAt reads a few bytes of a file at an offset, without verifying: for looking at sizes and magic numbers.
func (a *Archive) ReadAt(name string, p []byte, off int64) error {
	e, ok := a.entries[name]
	if !ok || off < 0 || off+int64(len(p)) > e.Size {
		return fmt.Errorf("%s: no bytes %d to %d in the archive", name, off, off+int64(len(p)))
	}
	if e.Encoding == InBase {
		base, at, err := a.inBase(e)
		if err != nil {
			return err
		}
		return base.ReadAt(at, p, off)
	}
	if err := a.readAt(a.bearer(e), p, off); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (a *Archive) readAt(e Entry, p []byte, off int64) error {
	if a.unpacked == nil && e.Encoding == Stored {
		_, err := a.stored(e, off+int64(len(p)), nearby).ReadAt(p, off)
		return err
	}
	c, err := a.open(e, alone)
	if err != nil {
		return err
	}
	defer c.Close()
	if file, ok := c.(bare); ok {
		if at, ok := file.ReadCloser.(io.ReaderAt); ok {
			_, err = at.ReadAt(p, off)
			return err
		}
	}
	if err := skip(c, off); err != nil {
		return err
	}
	_, err = io.ReadFull(c, p)
	return err
}

// storedContent reads the content of a stored member at any offset, stepping over the headers of its blocks.
type storedContent struct {
	src   io.ReaderAt
	start int64 // of the member
	skip  int64 // tar header before the content
}

// nearby is how many bytes behind those that are looked at come along from a source that is far: after the end of one member,
// the beginning of the next is often looked at.
const nearby = 4 << 10

// stored is the content of a stored entry, for one who reads up to end, and then may go on for ahead bytes.
func (a *Archive) stored(e Entry, end, ahead int64) storedContent {
	c := storedContent{src: a.src, start: a.body + e.Offset, skip: e.Header}
	if a.far != nil {
		c.src = a.far.src.Section(c.start + storedOffset(c.skip+end-1) + 1 + ahead)
	}
	return c
}

func (s storedContent) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		payload := s.skip + off + int64(n)
		within := payload % maxStoredBlock
		want := min(int64(len(p)-n), maxStoredBlock-within)
		at := s.start + storedOffset(payload)
		var k int
		k, err = s.src.ReadAt(p[n:n+int(want)], at)
		n += k
		if int64(k) == want {
			err = nil
		}
	}
	return n, err
}
