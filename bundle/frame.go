package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
)

// The frame of an entry is the part of its member besides the content: headers, padding and checksums. Sealift does not
// need it, but tar does. A wrong byte there may also mean that more is damaged.

// errFrame reports that a member's frame does not match the index.
var errFrame = errors.New("headers, padding or sums of its member are damaged; copy or download the archive again")

// frame returns the bytes before and after the content that the member's CRC covers.
func frame(e Entry) (header, pad []byte, err error) {
	if header, err = tarHeader(e); err != nil {
		return nil, nil, err
	}
	if int64(len(header)) != e.Header {
		return nil, nil, errFrame
	}
	return header, make([]byte, padding(e.contentSize())), nil
}

// contentSize returns the number of content bytes in the member itself.
func (e Entry) contentSize() int64 {
	if e.Encoding == Link {
		return 0
	}
	return e.Size
}

// framed reads the content of an entry out of its member, from front to back. It reads each byte once, because it may come
// from a server. It verifies the frame on the way, and finish verifies the end. It reads nothing before the first Read.
func framed(e Entry, in io.Reader) content {
	if e.Encoding == Deflate {
		return &deflatedReader{in: in, entry: e}
	}
	return &storedReader{in: bufio.NewReaderSize(in, int(min(e.Length, readBuffer))), entry: e}
}

// readBuffer holds one stored block with its header, and the next header.
const readBuffer = storedHeader + maxStoredBlock + storedHeader

// storedReader reads a stored member. Its payload is the decompressed member: header, content and padding.
type storedReader struct {
	in    *bufio.Reader
	entry Entry
	pad   []byte
	sums  *member // of the payload; nil before anything was read
	at    int64   // in the payload
	size  int64   // of the payload
}

func (s *storedReader) begin() error {
	header, pad, err := frame(s.entry)
	if err != nil {
		return err
	}
	s.sums, s.pad, s.size = newMember(io.Discard), pad, int64(len(header)+len(pad))+s.entry.contentSize()
	if err := expect(s.in, memberStart[:]); err != nil {
		return err
	}
	return expect(readerFunc(s.payload), header)
}

func (s *storedReader) payload(p []byte) (int, error) {
	within := s.at % maxStoredBlock
	if left := s.size - s.at; within == 0 && left > 0 {
		block := storedBlock(int(min(left, maxStoredBlock)), left <= maxStoredBlock)
		if err := expect(s.in, block[:]); err != nil {
			return 0, err
		}
	}
	n, err := s.in.Read(p[:min(int64(len(p)), maxStoredBlock-within, s.size-s.at)])
	s.sums.count(p[:n])
	s.at += int64(n)
	return n, err
}

// Read implements io.Reader. Callers never ask for more than the content.
func (s *storedReader) Read(p []byte) (int, error) {
	if s.sums == nil {
		if err := s.begin(); err != nil {
			return 0, err
		}
	}
	return s.payload(p)
}

func (s *storedReader) finish() error {
	if s.sums == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	if err := expect(readerFunc(s.payload), s.pad); err != nil {
		return err
	}
	return expect(s.in, gzipSums(s.sums.crc.Sum32(), s.sums.n))
}

func (s *storedReader) Close() error { return nil }

// deflatedReader reads a member that deflateMember wrote. It writes the member again to get the expected frame in due.
type deflatedReader struct {
	in      io.Reader
	entry   Entry
	pad     []byte
	due     bytes.Buffer
	member  *member   // writes to due
	inflate io.Reader // nil before the first read
}

func (d *deflatedReader) begin() error {
	header, pad, err := frame(d.entry)
	if err != nil {
		return err
	}
	d.pad, d.member = pad, newMember(&d.due)
	d.member.stored(header, false)
	front := int64(d.due.Len())
	length := d.entry.Length - front - int64(storedHeader+len(pad)+gzipTrailer)
	if length < 0 {
		return errFrame
	}
	if err := expect(d.in, d.due.Bytes()); err != nil {
		return err
	}
	d.due.Reset()
	d.inflate = flate.NewReader(bufio.NewReaderSize(io.LimitReader(d.in, length), int(min(length+1, readBuffer))))
	return nil
}

// Read implements io.Reader. Callers never ask for more than the content.
func (d *deflatedReader) Read(p []byte) (int, error) {
	if d.inflate == nil {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	n, err := d.inflate.Read(p)
	d.member.count(p[:n])
	return n, err
}

func (d *deflatedReader) finish() error {
	if d.inflate == nil {
		if err := d.begin(); err != nil {
			return err
		}
	}
	// the deflated form has no end marker, and must not have more than the content
	if n, err := d.inflate.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Join(errFrame, err)
	}
	d.member.stored(d.pad, true)
	if err := d.member.close(); err != nil {
		return err
	}
	return expect(d.in, d.due.Bytes())
}

func (d *deflatedReader) Close() error { return nil }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// expect reads the due bytes, and fails if they differ.
func expect(in io.Reader, due []byte) error {
	got := make([]byte, len(due))
	if _, err := io.ReadFull(in, got); err != nil {
		return err
	}
	if !bytes.Equal(got, due) {
		return errFrame
	}
	return nil
}

// checkLink verifies the member of a link against the index.
func (a *Archive) checkLink(e Entry) error { return framed(e, a.member(e, alone)).finish() }

// matchesAt compares want with the archive's bytes at offset, counted from the start of the members.
func (a *Archive) matchesAt(offset int64, want []byte) error {
	got := make([]byte, len(want))
	if _, err := a.src.ReadAt(got, a.body+offset); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(got, want) {
		return errFrame
	}
	return nil
}

// verifyEnds verifies the bytes outside all entries: the members of the index and its signature, and the end of the tar.
func (a *Archive) verifyEnds() error {
	if a.unpacked != nil {
		return nil
	}
	if err := a.verifyIndexFrame(); err != nil {
		return fmt.Errorf("%s: %w", a.Index.ownPath(), err)
	}
	if a.signature != nil {
		name := a.Index.ownPath() + signatureSuffix
		var want bytes.Buffer
		if err := writeSignatureMember(&want, name, a.signature); err != nil {
			return err
		}
		if err := a.matchesAt(a.first-a.body, want.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	var end int64
	if n := len(a.Index.Entries); n > 0 {
		end = a.Index.Entries[n-1].Offset + a.Index.Entries[n-1].Length
	}
	if err := a.matchesAt(end, endOfArchive); err != nil {
		return fmt.Errorf("end of the archive: %w", err)
	}
	return nil
}

func (a *Archive) verifyIndexFrame() error {
	header, err := tarHeader(Entry{Path: a.Index.ownPath(), Mode: 0o644, Size: int64(len(a.index))})
	if err != nil {
		return err
	}
	e := Entry{Path: a.Index.ownPath(), Mode: 0o644, Size: int64(len(a.index)), Encoding: Deflate, Offset: -a.body, Length: a.first, Header: int64(len(header))}
	c := framed(e, a.member(e, alone))
	defer c.Close()
	if _, err := io.CopyN(io.Discard, c, e.Size); err != nil {
		return errors.Join(errFrame, err)
	}
	return c.finish()
}
