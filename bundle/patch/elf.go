package patch

import (
	"bytes"
	"debug/elf"
)

// blockOfTar is what the content of files in a tar is aligned by, in bytes.
const blockOfTar = 512

// regionsOf finds the programs in the base: the base itself, or files of a tar.
func regionsOf(base []byte) (found []region) {
	end := int64(0)
	for at := 0; at < len(base); at += blockOfTar {
		if !bytes.HasPrefix(base[at:], []byte(elf.ELFMAG)) {
			continue
		}
		f, err := elf.NewFile(bytes.NewReader(base[at:]))
		if err != nil || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
			continue // something else, which is patched as bytes
		}
		for _, p := range f.Progs {
			left := uint64(len(base) - at)
			if p.Type != elf.PT_LOAD || p.Filesz == 0 || p.Off > left || p.Filesz > left-p.Off {
				continue
			}
			r := region{kind: pointers, from: int64(at) + int64(p.Off)}
			r.to, r.bias = r.from+int64(p.Filesz), int64(p.Vaddr)-r.from
			if p.Flags&elf.PF_X != 0 {
				r.kind = amd64
			}
			if r.from < end || r.kind == amd64 && f.Machine != elf.EM_X86_64 || len(found) == maxRegions {
				continue
			}
			found, end = append(found, r), r.to
		}
	}
	return found
}
