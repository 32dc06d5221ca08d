// Package head keeps the beginning of a program's output.
package head

import "bytes"

// Buffer keeps the first Limit bytes that are written to it. It has no ReadFrom: with that of bytes.Buffer, io.Copy would read past the
// limit.
type Buffer struct {
	Limit   int
	Dropped bool // more was written

	buf bytes.Buffer
}

// Write never fails: a program whose output is cut continues to its end.
func (b *Buffer) Write(p []byte) (int, error) {
	room := b.Limit - b.buf.Len()
	b.Dropped = b.Dropped || len(p) > room
	b.buf.Write(p[:min(len(p), room)])
	return len(p), nil
}

// Bytes returns the kept bytes, which are valid until the next Write.
func (b *Buffer) Bytes() []byte { return b.buf.Bytes() }
