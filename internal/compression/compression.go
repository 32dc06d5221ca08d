// Package compression recognizes gzip and zstd by their first bytes, and unpacks them. Media types and file names are not always right.
//
// The package never compresses, and knows nothing about what is inside.
package compression

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Form is a compression format.
type Form int

// The forms. None means neither gzip nor zstd.
const (
	None Form = iota
	Gzip
	Zstd
)

// Head is how many bytes Of needs.
const Head = 4

// Of returns the form of content that begins with head.
func Of(head []byte) Form {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}): // RFC 1952 §2.3.1
		return Gzip
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878 §3.1.1
		return Zstd
	case len(head) >= Head && head[0]&0xf0 == 0x50 && string(head[1:Head]) == "\x2a\x4d\x18": // a frame to skip, RFC 8878 §3.1.2
		return Zstd
	}
	return None
}

// ErrWindow reports a zstd frame with a larger window than the reader accepts.
var ErrWindow = zstd.ErrWindowSizeExceeded

// NewReader unpacks content with one thread: all members of gzip or frames of zstd. Content of another form is returned unchanged.
// A zstd frame with a window of more than window bytes is ErrWindow, because the reader needs as much memory. Close does not close r.
func NewReader(r io.Reader, window uint64) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.Peek(Head)
	if err != nil && err != io.EOF { // Peek returns it unchanged
		return nil, err
	}
	switch Of(head) {
	case Gzip:
		return gzip.NewReader(in)
	case Zstd:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}
