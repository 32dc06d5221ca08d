package repodata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The parts of an rpm file, as the RPM project documents its format 4: a lead, a header of signatures padded to eight
// bytes, the header, the payload.
const leadSize = 96

var (
	leadMagic   = []byte{0xed, 0xab, 0xee, 0xdb}
	headerMagic = []byte{0x8e, 0xad, 0xe8, 0x01}
)

// What rpm itself refuses as damaged is more than this; the largest headers of a distribution have some megabytes.
const (
	maxIndex = 64 << 10 // entries
	maxStore = 32 << 20 // bytes
)

// header is a set of tags. Values are numbers, texts or bytes; asking for another type than a tag has returns nothing.
type header struct {
	numbers map[uint32][]uint64
	texts   map[uint32][]string
	size    int64 // bytes in the file, without padding
}

func (h header) number(tag uint32) uint64 {
	if v := h.numbers[tag]; len(v) > 0 {
		return v[0]
	}
	return 0
}

func (h header) text(tag uint32) string {
	if v := h.texts[tag]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Types of values.
const (
	typeInt16      = 3
	typeInt32      = 4
	typeInt64      = 5
	typeText       = 6
	typeTexts      = 8
	typeTranslated = 9
)

// readHeaders reads a file up to its payload.
func readHeaders(r io.Reader) (signature, main header, err error) {
	lead := make([]byte, leadSize)
	if _, err := io.ReadFull(r, lead); err != nil {
		return header{}, header{}, fmt.Errorf("read the lead: %w", err)
	}
	if !bytes.HasPrefix(lead, leadMagic) {
		return header{}, header{}, errors.New("it does not start with the magic bytes of an rpm")
	}
	if signature, err = readHeader(r); err != nil {
		return header{}, header{}, fmt.Errorf("read the signatures: %w", err)
	}
	if _, err := io.CopyN(io.Discard, r, padding(signature.size)); err != nil {
		return header{}, header{}, fmt.Errorf("read the signatures: %w", err)
	}
	if main, err = readHeader(r); err != nil {
		return header{}, header{}, fmt.Errorf("read the header: %w", err)
	}
	return signature, main, nil
}

// padding is the distance to the next multiple of eight.
func padding(size int64) int64 { return -size & 7 }

func readHeader(r io.Reader) (header, error) {
	var start [16]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return header{}, err
	}
	count, size := binary.BigEndian.Uint32(start[8:]), binary.BigEndian.Uint32(start[12:])
	switch {
	case !bytes.HasPrefix(start[:], headerMagic):
		return header{}, errors.New("it does not start with the magic bytes of a header")
	case count > maxIndex || size > maxStore:
		return header{}, fmt.Errorf("%d tags in %d bytes are too many", count, size)
	}
	// Read in chunks: a damaged length must not allocate its memory.
	body, err := io.ReadAll(io.LimitReader(r, int64(count)*16+int64(size)))
	if err != nil {
		return header{}, err
	}
	if int64(len(body)) != int64(count)*16+int64(size) {
		return header{}, io.ErrUnexpectedEOF
	}
	h := header{numbers: make(map[uint32][]uint64), texts: make(map[uint32][]string), size: 16 + int64(len(body))}
	return h, h.decode(body[:count*16], body[count*16:], nil)
}

// decode sets the tags of an index whose values lie in store. With a list of tags it sets only those, and only their first value:
// the memory of what it keeps is then bounded by that of store.
func (h header) decode(index, store []byte, only []uint32) error {
	for ; len(index) > 0; index = index[16:] {
		tag, kind := binary.BigEndian.Uint32(index), binary.BigEndian.Uint32(index[4:])
		offset, count := binary.BigEndian.Uint32(index[8:]), binary.BigEndian.Uint32(index[12:])
		if only != nil {
			if !slices.Contains(only, tag) {
				continue
			}
			count = min(count, 1)
		}
		if int64(offset) > int64(len(store)) {
			return fmt.Errorf("tag %d lies outside the header", tag)
		}
		if err := h.set(tag, kind, store[offset:], count); err != nil {
			return fmt.Errorf("tag %d: %w", tag, err)
		}
	}
	return nil
}

// set decodes count values at the start of data. Types that nothing here reads are skipped.
func (h header) set(tag, kind uint32, data []byte, count uint32) error {
	width := map[uint32]int{typeInt16: 2, typeInt32: 4, typeInt64: 8}[kind]
	switch {
	case width > 0:
		if int64(count)*int64(width) > int64(len(data)) {
			return io.ErrUnexpectedEOF
		}
		values := make([]uint64, count)
		for i := range values {
			for _, b := range data[i*width : (i+1)*width] {
				values[i] = values[i]<<8 | uint64(b)
			}
		}
		h.numbers[tag] = values
	case kind == typeText || kind == typeTexts || kind == typeTranslated:
		var values []string
		for range count {
			text, rest, found := bytes.Cut(data, []byte{0})
			if !found {
				return io.ErrUnexpectedEOF
			}
			values, data = append(values, string(text)), rest
		}
		h.texts[tag] = values
	}
	return nil
}
