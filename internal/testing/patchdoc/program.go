package patchdoc

import (
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
)

const (
	page  = 4096
	start = 0x400000 // the address of the first byte of a program
)

// Program returns a program for x86-64, as compilers make them: functions that call others and use variables, and a table of pointers to
// functions. In a later version, some functions have more code, and what is behind them moves.
func Program(version uint64) []byte {
	const functions, variables = 2000, 8 << 10
	code, changes := rand.New(rand.NewPCG(5, 6)), rand.New(rand.NewPCG(version, 7))
	type use struct{ at, function, variable int } // of a function, or else of a variable
	var text []byte
	var uses []use
	places := make([]int, functions)
	for f := range functions {
		for len(text)%16 != 0 {
			text = append(text, 0xcc)
		}
		places[f] = page + len(text)
		for range 2 + code.IntN(8) {
			for range 3 + code.IntN(20) {
				text = append(text, byte(code.Uint32()))
			}
			u := use{function: code.IntN(functions), variable: code.IntN(variables)}
			switch code.IntN(4) {
			case 0: // a comparison of a variable with a constant
				text = append(text, 0x83, 0x3d)
				u.function = -1
			case 1: // the address of a function
				text = append(text, 0x48, 0x8d, 0x05)
			default: // a call
				text = append(text, 0xe8)
			}
			u.at = len(text)
			uses = append(uses, u)
			text = append(text, 0, 0, 0, 0)
		}
		if version > 0 && changes.IntN(100) == 0 {
			for range 16 + changes.IntN(200) {
				text = append(text, byte(changes.Uint32()))
			}
		}
	}
	data := (page + len(text) + page - 1) / page * page
	out := make([]byte, data, data+8*functions)
	copy(out[page:], text)
	for _, u := range uses {
		at := page + u.at
		target := data + 8*functions + u.variable - 1 // the variables are behind the file, and the comparison's constant has a byte
		if u.function >= 0 {
			target = places[u.function]
		}
		binary.LittleEndian.PutUint32(out[at:], uint32(target-at-4))
	}
	for _, place := range places {
		out = binary.LittleEndian.AppendUint64(out, uint64(start+place))
	}
	header(out, len(text), data)
	return out
}

// header writes the ELF header and those of both segments.
func header(out []byte, text, data int) {
	copy(out, elf.ELFMAG)
	out[elf.EI_CLASS], out[elf.EI_DATA], out[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	put16, put32, put64 := binary.LittleEndian.PutUint16, binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	put16(out[16:], uint16(elf.ET_EXEC))
	put16(out[18:], uint16(elf.EM_X86_64))
	put32(out[20:], uint32(elf.EV_CURRENT))
	put64(out[32:], 64) // of the program headers
	put16(out[52:], 64)
	put16(out[54:], 56)
	put16(out[56:], 2)
	for n, s := range []struct{ flags, from, size int }{{int(elf.PF_R | elf.PF_X), page, text}, {int(elf.PF_R | elf.PF_W), data, len(out) - data}} {
		p := out[64+56*n:]
		put32(p, uint32(elf.PT_LOAD))
		put32(p[4:], uint32(s.flags))
		put64(p[8:], uint64(s.from))
		put64(p[16:], uint64(start+s.from))
		put64(p[32:], uint64(s.size))
		put64(p[40:], uint64(s.size))
	}
}
