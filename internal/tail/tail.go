// Package tail keeps the end of what a program writes, for the error that tells of the program's failure.
package tail

import (
	"strings"
	"sync"
)

// DefaultLimit is how much a Buffer keeps unless told otherwise, in bytes.
const DefaultLimit = 16 << 10

// Buffer keeps the last bytes that were written to it, Limit at most. Its zero value is ready, and its methods may be called
// from several goroutines.
type Buffer struct {
	Limit int // 0 means DefaultLimit

	mu  sync.Mutex
	buf []byte
	cut bool // something came before
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

// Reset forgets everything.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf, b.cut = b.buf[:0], false
}

// String gives what is kept without the space around it, from the first whole line on.
func (b *Buffer) String() string { return strings.Join(b.lines(), "\n") }

// Last gives the last n whole lines, each cut where it has more than width bytes: too long to be read.
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
