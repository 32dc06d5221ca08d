// Package parts splits an archive into files that fit on media with limits, such as FAT32 and DVDs, and reads it from
// them in place. Parity parts, Reed-Solomon codes over GF(2^8), replace parts that are lost and blocks that cannot be read.
//
// The package finds accidents: damaged, missing and swapped parts. It does not prove who made them. The archive's index and its
// signature do that, and the archive's reader checks each file against them. docs/format.md is the specification.
package parts

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/sha256hex"
)

// Format is the version of the layout of parts.
const Format = "sealift.dev/parts/v1"

const (
	// MaxParts is the most parts that a set may have: one code has at most 256 symbols of 8 bits.
	MaxParts = 256
	// blockSize is the number of bytes with one digest. Damage costs a whole block. A repair holds one block of each part in
	// memory, 32 MiB for MaxParts.
	blockSize = 128 << 10
	// maxBlock is the largest block that is read.
	maxBlock = 256 << 10
	// maxSize is the largest archive in bytes. It keeps sums of offsets far from overflow.
	maxSize = 1 << 50
)

// Set describes parts that belong together. Each part has it, byte for byte the same.
type Set struct {
	Format  string `json:"format"`
	Archive string `json:"archive"` // sha256 of the archive's index, its identity; lower-case hex
	Size    int64  `json:"size"`    // of the archive, in bytes
	Block   int64  `json:"block"`   // bytes with one digest; the last block of a part may be shorter
	// PartSize is the bytes of the archive in each data part. The last data part has the rest. Each parity part has PartSize bytes.
	PartSize int64 `json:"partSize"`
	Data     int   `json:"data"`   // number of parts with the archive's bytes; so many of all parts are needed
	Parity   int   `json:"parity"` // number of parity parts, which follow the data parts
	// Parts has the sha256 of each part's list of digests, in order; lower-case hex.
	Parts []string `json:"parts"`
}

// id identifies a set: the sha256 of its description.
func (s Set) id() string {
	text, _ := json.Marshal(s) // it has strings and numbers only
	return sha256hex.Of(text)
}

// total is the number of all parts.
func (s Set) total() int { return s.Data + s.Parity }

// bytesOf is how many bytes of blocks the part has. Parts are numbered from 0 here, and from 1 everywhere else.
func (s Set) bytesOf(part int) int64 {
	if part >= s.Data {
		return min(s.PartSize, s.Size)
	}
	return min(s.PartSize, s.Size-int64(part)*s.PartSize)
}

// blocksOf is the number of blocks of a part.
func (s Set) blocksOf(part int) int64 { return (s.bytesOf(part) + s.Block - 1) / s.Block }

// blockLength is the number of bytes of one block of a part; zero after its end.
func (s Set) blockLength(part int, block int64) int64 {
	return max(0, min(s.Block, s.bytesOf(part)-block*s.Block))
}

func (s Set) validate() error {
	switch {
	case s.Format != Format:
		return fmt.Errorf("has the format %q, and this sealift reads %s; use a newer sealift", s.Format, Format)
	case s.Size <= 0 || s.Size > maxSize || s.PartSize <= 0 || s.PartSize > maxSize:
		return errors.New("describes an archive of an impossible size")
	case s.Block < 512 || s.Block > maxBlock:
		return fmt.Errorf("has blocks of %d bytes, not of 512 to %d", s.Block, maxBlock)
	case s.Data < 1 || s.Parity < 0 || s.Data > MaxParts || s.Parity > MaxParts || s.total() > MaxParts:
		return fmt.Errorf("belongs to %d and %d parts, and there are at most %d", s.Data, s.Parity, MaxParts)
	case (s.Size+s.PartSize-1)/s.PartSize != int64(s.Data):
		return fmt.Errorf("says that %d bytes are %d parts of %d bytes", s.Size, s.Data, s.PartSize)
	case s.blocksOf(0)*sha256.Size > maxHead:
		return fmt.Errorf("describes parts of %d bytes in blocks of %d, which are too many to describe", s.PartSize, s.Block)
	case len(s.Parts) != s.total():
		return fmt.Errorf("has digests of %d parts, not of %d", len(s.Parts), s.total())
	case !isDigest(s.Archive) || slices.ContainsFunc(s.Parts, func(d string) bool { return !isDigest(d) }):
		return errors.New("has digests that are not sha256")
	}
	return nil
}

func isDigest(text string) bool {
	return len(text) == 2*sha256.Size && strings.Trim(text, "0123456789abcdef") == ""
}
