// Package sha256hex computes SHA-256 digests in the form that documents, records and names have: 64 lower-case hexadecimal digits. It
// verifies nothing: callers compare.
package sha256hex

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

// Of returns the digest of a text.
func Of[T ~string | ~[]byte](text T) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Read reads r to its end, and returns its digest and its length in bytes. After an error the digest is that of what was read.
func Read(r io.Reader) (digest string, size int64, err error) {
	var sum Sum
	_, err = io.Copy(&sum, r)
	return sum.Digest(), sum.Size(), err
}

// Sum is a writer that computes the digest and the length of what is written to it. The zero Sum is ready to use.
type Sum struct {
	hash hash.Hash
	size int64
}

// Write never fails.
func (s *Sum) Write(p []byte) (int, error) {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.size += int64(len(p))
	return s.hash.Write(p)
}

// Digest returns the digest of what was written so far.
func (s *Sum) Digest() string {
	if s.hash == nil {
		return Of("")
	}
	return hex.EncodeToString(s.hash.Sum(nil))
}

// Size returns the number of bytes that were written.
func (s *Sum) Size() int64 { return s.size }
