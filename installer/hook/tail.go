package hook

import (
	"strings"
	"sync"
)

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// What is kept of a hook's output, and what of that an error shows.
const (
	tailSize  = 16 << 10
	tailLines = 12
	tailWidth = 400 // bytes of a line
)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = t.buf[:0]
}

// String gives the last whole lines, each cut where it is too long to be read.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimRight(string(t.buf), "\n"), "\n")
	if len(t.buf) == tailSize && len(lines) > 1 {
		lines = lines[1:] // its beginning is gone
	}
	lines = lines[max(0, len(lines)-tailLines):]
	for i, line := range lines {
		if len(line) > tailWidth {
			lines[i] = strings.ToValidUTF8(line[:tailWidth], "") + "…"
		}
	}
	return strings.Join(lines, "\n")
}
