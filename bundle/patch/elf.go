package patch

import (
	"bytes"
	"encoding/binary"
)

// blockOfTar is what the content of files in a tar is aligned by, in bytes.
const blockOfTar = 512

// The parts of ELF that are asked: debug/elf reads far more, and would be in every program for nodes.
const (
	elfMagic      = "\x7fELF\x02\x01" // 64 bits, little-endian
	elfHeader     = 64
	programHeader = 56
	loaded        = 1 // the type of a program header
	executable    = 1 // a flag of one
	machineAMD64  = 62
)

// regionsOf finds the programs in the base: the base itself, or files of a tar. What has another form is patched as bytes.
func regionsOf(base []byte) (found []region) {
	end := int64(0)
	for at := 0; at+elfHeader <= len(base); at += blockOfTar {
		if !bytes.HasPrefix(base[at:], []byte(elfMagic)) {
			continue
		}
		file := base[at:]
		machine, size := binary.LittleEndian.Uint16(file[18:]), binary.LittleEndian.Uint16(file[54:])
		next, count := binary.LittleEndian.Uint64(file[32:]), int(binary.LittleEndian.Uint16(file[56:]))
		for ; count > 0 && size == programHeader && next <= uint64(len(file)-programHeader); count-- {
			r, ok := loadedRegion(file, file[next:], int64(at))
			if next += programHeader; !ok || r.from < end || r.kind == amd64 && machine != machineAMD64 || len(found) == maxRegions {
				continue
			}
			found, end = append(found, r), r.to
		}
	}
	return found
}

// loadedRegion returns what a program header loads of a file that begins at a place of the base.
func loadedRegion(file, header []byte, at int64) (r region, ok bool) {
	from, address, size := binary.LittleEndian.Uint64(header[8:]), binary.LittleEndian.Uint64(header[16:]), binary.LittleEndian.Uint64(header[32:])
	if binary.LittleEndian.Uint32(header) != loaded || size == 0 || from > uint64(len(file)) || size > uint64(len(file))-from {
		return region{}, false
	}
	r = region{kind: pointers, from: at + int64(from), to: at + int64(from+size), bias: int64(address) - at - int64(from)}
	if binary.LittleEndian.Uint32(header[4:])&executable != 0 {
		r.kind = amd64
	}
	return r, true
}
