package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// OpenEntry opens one file. The reader verifies the content: at the end it returns a DigestError instead of io.EOF if the
// content does not match the index. Do not trust the content before that.
func (a *Archive) OpenEntry(name string) (io.ReadCloser, error) {
	e, ok := a.entries[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w in the archive", name, fs.ErrNotExist)
	}
	return a.openEntry(e, alone)
}

// alone means that the caller reads nothing after this entry.
const alone = -1

// openEntry opens an entry. ahead is the number of bytes after its member that the caller will also read, or alone.
func (a *Archive) openEntry(e Entry, ahead int64) (io.ReadCloser, error) {
	if a.leavesOut(e) {
		base, at, err := a.elsewhere(e)
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

// OpenRest opens one file from an offset on, to resume an interrupted transfer. It verifies nothing: the caller must verify
// the joined file.
func (a *Archive) OpenRest(name string, from int64) (io.ReadCloser, error) {
	e, ok := a.entries[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w in the archive", name, fs.ErrNotExist)
	}
	if from < 0 || from > e.Size {
		return nil, fmt.Errorf("%s: has %d bytes, so reading cannot begin at %d", name, e.Size, from)
	}
	if a.leavesOut(e) {
		base, at, err := a.elsewhere(e)
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
	return struct { // deflated content has no end marker
		io.Reader
		io.Closer
	}{io.LimitReader(c, e.Size-from), c}, nil
}

// skip moves a content to an offset. It seeks in a plain file and reads in a member.
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

// content is the content of an entry. After its last byte, finish verifies the rest of the member against the index.
type content interface {
	io.ReadCloser
	finish() error
}

func (a *Archive) open(e Entry, ahead int64) (content, error) {
	if a.unpacked != nil {
		file, err := a.unpacked(e)
		return bare{file}, err
	}
	if e.Encoding == Link { // the target has the bytes
		e, ahead = a.bearer(e), alone
	}
	return framed(e, a.member(e, ahead)), nil
}

// bare is content without the frame of a gzip member.
type bare struct{ io.ReadCloser }

func (b bare) finish() error {
	switch _, err := io.ReadFull(b, make([]byte, 1)); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("has more bytes than the index says")
}

// bearer returns the entry whose member has the content of e: e itself, or the target of its link.
func (a *Archive) bearer(e Entry) Entry {
	if e.Encoding == Link {
		return a.entries[e.Link]
	}
	return e
}

// member returns a reader of an entry's member in the archive.
func (a *Archive) member(e Entry, ahead int64) *io.SectionReader {
	from := a.body + e.Offset
	src := a.src
	if a.remote != nil {
		src = a.remote.reader(from, from+e.Length, ahead)
	}
	return io.NewSectionReader(src, from, e.Length)
}

// ReadAt reads a few bytes of a file at an offset, for example a magic number. It verifies nothing.
func (a *Archive) ReadAt(name string, p []byte, off int64) error {
	e, ok := a.entries[name]
	if !ok || off < 0 || off+int64(len(p)) > e.Size {
		return fmt.Errorf("%s: no bytes %d to %d in the archive", name, off, off+int64(len(p)))
	}
	if a.leavesOut(e) {
		base, at, err := a.elsewhere(e)
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

// storedContent reads the content of a stored member at any offset. It steps over the headers of the blocks.
type storedContent struct {
	src   io.ReaderAt
	start int64 // of the member
	skip  int64 // tar header before the content
}

// nearby is the number of bytes after a range that a remote read also requests, because the caller often reads the
// beginning of the next member.
const nearby = 4 << 10

// stored returns the content of a stored entry for reads up to end, and then for up to ahead bytes more.
func (a *Archive) stored(e Entry, end, ahead int64) storedContent {
	c := storedContent{src: a.src, start: a.body + e.Offset, skip: e.Header}
	if a.remote != nil {
		c.src = a.remote.src.Section(c.start + storedOffset(c.skip+end-1) + 1 + ahead)
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
