package osdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The format ndb of rpm, Packages.db: a header, then pages of slots that say where blobs are. All numbers are little-endian.
const (
	ndbMagic     = "RpmP"
	ndbPage      = 4096
	ndbSlot      = 16
	ndbSlotMagic = "Slot"
	ndbBlobMagic = "BlbS"
	ndbBlock     = 16 // unit of offsets and lengths
	ndbMaxPages  = 2048
)

// ndbBlobs calls each for every blob of a database.
func ndbBlobs(r io.ReaderAt, size int64, each func([]byte) error) error {
	head := make([]byte, 32)
	if _, err := r.ReadAt(head, 0); err != nil {
		return fmt.Errorf("read the header: %w", err)
	}
	if version := binary.LittleEndian.Uint32(head[4:]); version != 0 {
		return fmt.Errorf("version %d of the format is not known", version)
	}
	pages := binary.LittleEndian.Uint32(head[12:])
	if pages == 0 || pages > ndbMaxPages || int64(pages)*ndbPage > size {
		return fmt.Errorf("%d pages of slots do not fit into %d bytes", pages, size)
	}
	page := make([]byte, ndbPage)
	left := size // blobs do not overlap
	for n := range int64(pages) {
		if _, err := r.ReadAt(page, n*ndbPage); err != nil {
			return fmt.Errorf("read page %d: %w", n, err)
		}
		slots := page
		if n == 0 {
			slots = page[2*ndbSlot:] // the header
		}
		for ; len(slots) >= ndbSlot; slots = slots[ndbSlot:] {
			if string(slots[:4]) != ndbSlotMagic {
				return fmt.Errorf("page %d has a damaged slot", n)
			}
			index, offset := binary.LittleEndian.Uint32(slots[4:]), binary.LittleEndian.Uint32(slots[8:])
			if index == 0 || offset == 0 {
				continue // free
			}
			blob, err := ndbBlob(r, size, int64(offset)*ndbBlock, index)
			if err != nil {
				return err
			}
			if left -= int64(len(blob)); left < 0 {
				return errors.New("its packages are larger than the file")
			}
			if err := each(blob); err != nil {
				return err
			}
		}
	}
	return nil
}

func ndbBlob(r io.ReaderAt, size, at int64, index uint32) ([]byte, error) {
	head := make([]byte, 16) // magic, index, generation, length
	if _, err := r.ReadAt(head, at); err != nil {
		return nil, fmt.Errorf("read package %d: %w", index, err)
	}
	if string(head[:4]) != ndbBlobMagic || binary.LittleEndian.Uint32(head[4:]) != index {
		return nil, fmt.Errorf("package %d is damaged", index)
	}
	length := int64(binary.LittleEndian.Uint32(head[12:]))
	if length > maxHeader || at+16+length > size {
		return nil, fmt.Errorf("package %d has %d bytes, which is too much", index, length)
	}
	blob := make([]byte, length)
	if _, err := r.ReadAt(blob, at+16); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read package %d: %w", index, err)
	}
	return blob, nil
}
