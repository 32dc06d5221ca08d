package kurl

import (
	"fmt"
	"io"
	"math"
)

// What an archive may unpack to unless the options say otherwise. The largest of kURL's bundles have some ten thousand files and a
// dozen GiB; an archive without an index can promise little and unpack to anything. So the default grows with the bytes of the archive
// that were read: holes and zeros cost nothing to send. Images, the most of a bundle, unpack to three times their size.
const (
	DefaultMaxSize  = 64 << 30
	DefaultMaxFiles = 200_000
	DefaultMaxRatio = 32
	freeSize        = 64 << 20 // for which the ratio does not count
)

// bound returns a limit, its default for 0, or no limit for a negative one.
func bound(limit, byDefault int64) int64 {
	switch {
	case limit == 0:
		return byDefault
	case limit < 0:
		return math.MaxInt64
	}
	return limit
}

// counted counts the bytes of an archive that were read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// allowed is how much the archive may have unpacked to so far.
func (c *counted) allowed() int64 { return min(DefaultMaxSize, freeSize+DefaultMaxRatio*c.n) }

// limited ends a stream that exceeds its limit. Content that is left out of an archive counts, too: it is inflated.
type limited struct {
	r      io.Reader
	passed *int64
	max    func() int64
}

// tooLargeError reports that an archive unpacks to more than is allowed.
type tooLargeError struct{ max int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("unpacks to more than %d bytes; if you trust it, import it with 'sealift import --max-size'", e.max)
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if *l.passed += int64(n); *l.passed > l.max() {
		return 0, &tooLargeError{l.max()}
	}
	return n, err
}
