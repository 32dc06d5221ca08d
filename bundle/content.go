package bundle

import (
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
	return a.openEntry(e, 0)
}

// openEntry opens an entry for one who goes on reading for ahead bytes behind its member.
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
	e = a.bearer(e)
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
		_, err := a.stored(e, off+int64(len(p))).ReadAt(p, off)
		return err
	}
	c, err := a.open(e, 0)
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
	if _, err := io.CopyN(io.Discard, c, off); err != nil {
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

// stored is the content of a stored entry, for one who reads up to end.
func (a *Archive) stored(e Entry, end int64) storedContent {
	c := storedContent{src: a.src, start: a.body + e.Offset, skip: e.Header}
	if a.far != nil {
		c.src = a.far.src.Section(c.start + storedOffset(c.skip+end-1) + 1)
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
