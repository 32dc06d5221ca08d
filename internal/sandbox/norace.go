//go:build !race

package sandbox

// slowdown multiplies the limit of processor time, and Overhead the limit of memory, in a program with the race detector.
const (
	slowdown = 1
	Overhead = 1
)

var outOfMemoryOfDetector []string
