//go:build race

package sandbox

// The race detector makes code several times slower, and keeps 2.5 bytes for each byte of memory. Limits leave room for both.
const (
	slowdown = 5
	Overhead = 4
)

// outOfMemoryOfDetector is the race detector's message when it gets no memory.
var outOfMemoryOfDetector = []string{"ThreadSanitizer failed to allocate", "too many address space collisions for -race mode"}
