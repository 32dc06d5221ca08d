// Package sha256hex computes SHA-256 digests in the form that documents, records and names have: 64 lower-case hexadecimal digits. It
// verifies nothing: callers compare.
package sha256hex

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Of returns the digest of a text.
func Of[T ~string | ~[]byte](text T) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Read reads r to its end, and returns its digest and its length in bytes. After an error the digest is that of what was read.
func Read(r io.Reader) (digest string, size int64, err error) {
	sum := sha256.New()
	size, err = io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil)), size, err
}
