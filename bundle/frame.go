package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// The frame of an entry is what its member has besides the content: headers, padding and sums. Sealift itself does not
// need it, but tar does, and a byte that is wrong there tells that more may be.

// errFrame says that a frame is not what the index makes of it.
var errFrame = errors.New("headers, padding or sums of its member are damaged; copy or download the archive again")

// frame gives the bytes that sum up to a member's CRC before and behind its content.
func frame(e Entry) (header, pad []byte, err error) {
	if header, err = tarHeader(e); err != nil {
		return nil, nil, err
	}
	if int64(len(header)) != e.Header {
		return nil, nil, errFrame
	}
	return header, make([]byte, padding(e.contentSize())), nil
}

// contentSize is how many bytes of content the member itself has.
func (e Entry) contentSize() int64 {
	if e.Encoding == Link {
		return 0
	}
	return e.Size
}

// checkFrame holds the frame of an entry against the index. Content is the reader of a deflated entry, at the end of the
// content; crc is the CRC-32 of header, content and padding.
func (a *Archive) checkFrame(e Entry, content io.Reader, crc uint32) error {
	if a.unpacked != nil {
		return nil
	}
	header, pad, err := frame(e)
	if err != nil {
		return err
	}
	if e.Encoding == Deflate {
		return a.checkDeflated(e, header, pad, content)
	}
	for _, part := range storedFrame(e, header, pad, crc) {
		if err := a.matchesAt(e.Offset+part.at, part.want); err != nil {
			return err
		}
	}
	return nil
}

// span is a part of a member: where it begins, and the bytes that are due there.
type span struct {
	at   int64
	want []byte
}

// storedFrame gives all of a stored member but its content, in few parts: each may be a request to a server.
func storedFrame(e Entry, header, pad []byte, crc uint32) []span {
	var parts []span
	add := func(at int64, want []byte) {
		if n := len(parts) - 1; n >= 0 && parts[n].at+int64(len(parts[n].want)) == at {
			parts[n].want = append(parts[n].want, want...)
		} else {
			parts = append(parts, span{at, bytes.Clone(want)})
		}
	}
	payload := int64(len(header)) + e.contentSize() + int64(len(pad))
	padFrom := payload - int64(len(pad))
	add(0, memberStart[:])
	for at := int64(0); at < payload; at += maxStoredBlock {
		end := min(at+maxStoredBlock, payload)
		block := storedBlock(int(end-at), end == payload)
		add(storedOffset(at)-storedHeader, block[:])
		if at == 0 {
			add(storedOffset(0), header)
		}
		if from := max(at, padFrom); from < end {
			add(storedOffset(from), pad[from-padFrom:end-padFrom])
		}
	}
	add(e.Length-gzipTrailer, gzipSums(crc, uint32(payload)))
	return parts
}

// checkDeflated lets the inflater go on to the end of the member, where it checks the sums.
func (a *Archive) checkDeflated(e Entry, header, pad []byte, content io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(content, blockSize))
	if err != nil || !bytes.Equal(rest, pad) {
		return errors.Join(errFrame, err)
	}
	var front bytes.Buffer
	m := newMember(&front)
	m.stored(header, false)
	var back bytes.Buffer
	(&member{w: &back, crc: m.crc}).stored(pad, true)
	return errors.Join(
		a.matchesAt(e.Offset, front.Bytes()),
		a.matchesAt(e.Offset+e.Length-gzipTrailer-int64(back.Len()), back.Bytes()),
	)
}

// matchesAt compares bytes of the archive, offset counted from where the members begin.
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

// verifyEnds checks what is no entry: the members of the index and of its signature, and the end of the tar.
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
	e := Entry{Path: a.Index.ownPath(), Mode: 0o644, Size: int64(len(a.index)), Encoding: Deflate, Offset: -a.body, Length: a.first}
	header, err := tarHeader(e)
	if err != nil {
		return err
	}
	gz, err := gzip.NewReader(bufio.NewReaderSize(a.member(e), 64<<10))
	if err != nil {
		return errors.Join(errFrame, err)
	}
	gz.Multistream(false)
	if _, err := io.CopyN(io.Discard, gz, int64(len(header)+len(a.index))); err != nil {
		return errors.Join(errFrame, err)
	}
	return a.checkDeflated(e, header, make([]byte, padding(e.Size)), gz)
}
