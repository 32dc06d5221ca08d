// Package tail keeps the end of a program's output, for the error message if the program fails.
package tail

import (
	"strings"
	"sync"
)

// DefaultLimit is the default limit of a Buffer, in bytes.
const DefaultLimit = 16 << 10

// Buffer keeps the last Limit bytes that were written to it. Its zero value is ready to use. Its methods may be called from
// several goroutines.
type Buffer struct {
	Limit int // 0 means DefaultLimit

	mu  sync.Mutex
	buf []byte
	cut bool // earlier bytes were dropped
}

// Write never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := b.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	b.buf = append(b.buf, p...)
	if extra := len(b.buf) - limit; extra > 0 {
		b.buf, b.cut = append(b.buf[:0], b.buf[extra:]...), true
	}
	return len(p), nil
}

// Reset drops what the buffer holds.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf, b.cut = b.buf[:0], false
}

// String returns the kept text from the first whole line on, without surrounding space.
func (b *Buffer) String() string { return strings.Join(b.lines(), "\n") }

// Last returns the last n whole lines, each cut to width bytes.
func (b *Buffer) Last(n, width int) string {
	lines := b.lines()
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if len(line) > width {
			lines[i] = strings.ToValidUTF8(line[:width], "") + "…"
		}
	}
	return strings.Join(lines, "\n")
}

func (b *Buffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(b.buf)), "\n")
	if b.cut && len(lines) > 1 {
		lines = lines[1:]
	}
	return lines
}
