// Package patchdoc applies patches as docs/format.md describes them, without package patch.
package patchdoc

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	magic   = "sealift.patch/v2\n"
	segment = 2 << 20
)

type (
	region struct{ kind, from, to, bias int }
	step   struct{ copied, fresh, from, at int }
	guess  struct{ place, block, value, move int }
)

// reader has what a patch says of the base, and what was learned from it.
type reader struct {
	data, base []byte
	regions    []region
	moves      []*int // of each byte of the base; nil for one that no step copies
	block      int    // bytes
	learned    []int
	guesses    []guess
}

// Apply returns what an intact patch makes of its base.
func Apply(patch, base []byte) (result []byte, err error) {
	stream, ok := bytes.CutPrefix(patch, []byte(magic))
	if !ok {
		return nil, errors.New("no magic")
	}
	z, err := zstd.NewReader(bytes.NewReader(stream))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	r := &reader{base: base}
	if r.data, err = io.ReadAll(z); err != nil {
		return nil, err
	}
	steps := r.head()
	r.prepare(steps)
	for len(steps) > 0 {
		n := 0
		for n < len(steps) && steps[n].at/segment == steps[0].at/segment {
			n++
		}
		result = append(result, r.segment(steps[:n])...)
		steps = steps[n:]
	}
	if len(r.data) > 0 {
		return nil, errors.New("bytes after the last segment")
	}
	return result, nil
}

func (r *reader) number() int {
	n, k := binary.Uvarint(r.data)
	r.data = r.data[k:]
	return int(n)
}

func (r *reader) signed() int {
	n, k := binary.Varint(r.data)
	r.data = r.data[k:]
	return int(n)
}

func (r *reader) head() []step {
	r.regions = make([]region, r.number())
	end := 0
	for i := range r.regions {
		kind := r.number()
		from := end + r.number()
		end = from + r.number()
		r.regions[i] = region{kind, from, end, r.signed()}
	}
	steps := make([]step, r.number())
	for i := range steps {
		steps[i].copied = r.number()
	}
	at := 0
	for i := range steps {
		steps[i].fresh, steps[i].at = r.number(), at
		at += steps[i].copied + steps[i].fresh
	}
	end = 0
	for i := range steps {
		steps[i].from = end + r.signed()
		end = steps[i].from + steps[i].copied
	}
	return steps
}

func (r *reader) span() int { return len(r.base) + len(r.base)/2 }

// prepare computes how far each byte moves.
func (r *reader) prepare(steps []step) {
	r.moves = make([]*int, len(r.base))
	byLength := slices.Clone(steps)
	slices.SortStableFunc(byLength, func(a, b step) int { return cmp.Compare(b.copied, a.copied) })
	for _, s := range byLength {
		move := s.at - s.from
		for p := s.from; p < s.from+s.copied; p++ {
			if r.moves[p] == nil {
				r.moves[p] = &move
			}
		}
	}
	for r.block = 32; r.block <= r.span()>>20; {
		r.block *= 2
	}
	last := 0
	for p := range r.span() + r.block {
		if p < len(r.base) && r.moves[p] != nil {
			last = *r.moves[p]
		}
		if (p+1)%r.block == 0 {
			r.learned = append(r.learned, last)
		}
	}
}

func (r *reader) segment(steps []step) (result []byte) {
	var copied []byte
	for _, s := range steps {
		place := len(copied)
		copied = append(copied, r.base[s.from:s.from+s.copied]...)
		for _, g := range r.regions {
			from, to := max(g.from, s.from), min(g.to, s.from+s.copied)
			if g.kind == 1 {
				r.code(s, copied[place:], place, from, to)
			} else {
				r.pointers(g, s, copied[place:], place, from, to)
			}
		}
	}
	places := make([]int, r.number())
	end := 0
	for i := range places {
		places[i] = end + r.number()
		end = places[i] + 4
	}
	copied = append(copied, 0, 0, 0)
	for _, p := range places {
		binary.LittleEndian.PutUint32(copied[p:], binary.LittleEndian.Uint32(copied[p:])+uint32(r.signed()))
	}
	for _, g := range r.guesses {
		if now := int(int32(binary.LittleEndian.Uint32(copied[g.place:]))); now != g.value {
			r.learned[g.block] = int(int32(g.move + now - g.value))
		}
	}
	r.guesses = nil
	for _, s := range steps {
		result = append(append(result, copied[:s.copied]...), r.data[:s.fresh]...)
		copied, r.data = copied[s.copied:], r.data[s.fresh:]
	}
	return result
}

// operations are those of docs/format.md, by the bytes of their constant.
var operations = map[int]string{
	0: "\x01\x03\x09\x0b\x10\x11\x13\x21\x23\x28\x29\x2b\x2e\x2f\x31\x33\x38\x39\x3a\x3b\x63\x6f\x7e\x7f\x84\x85\x86\x87\x88\x89\x8a\x8b\x8d\xaf\xb1\xb6\xb7\xbe\xbf\xc1\xef\xfe\xff",
	1: "\x6b\x80\x83\xc6",
	4: "\x69\x81\xc7",
}

// code corrects the addresses in machine code from p on.
func (r *reader) code(s step, copied []byte, place, p, to int) {
	for free := p; p < to; p++ { // free is where the address before ends
		at, constant := 0, 0
		switch b := r.base[p]; {
		case b == 0xe8 || b == 0xe9:
			at = p + 1
		case b == 0x0f && p+1 < to && r.base[p+1]>>4 == 8:
			at = p + 2
		case b&0xc7 == 0x05 && p > free:
			for n, codes := range operations {
				if strings.IndexByte(codes, r.base[p-1]) >= 0 {
					at, constant = p+1, n
				}
			}
		}
		if at == 0 || at+4 > to {
			continue
		}
		target := at + 4 + constant + int(int32(binary.LittleEndian.Uint32(r.base[at:])))
		if r.correct(copied, place, at-s.from, target, s.at-s.from) {
			p, free = at+3, at+4
		}
	}
}

func (r *reader) pointers(g region, s step, copied []byte, place, p, to int) {
	for p = (p + 7) / 8 * 8; p+8 <= to; p += 8 {
		if value := int(binary.LittleEndian.Uint64(r.base[p:])); value != 0 {
			r.correct(copied, place, p-s.from, value-g.bias, 0)
		}
	}
}

// correct changes the address of a target at a place of the copied bytes of a step, unless the target is outside of everything.
func (r *reader) correct(copied []byte, place, at, target, own int) bool {
	if target < 0 || target >= r.span() {
		return false
	}
	move, known := r.learned[target/r.block], false
	if target < len(r.base) && r.moves[target] != nil {
		move, known = *r.moves[target], true
	}
	value := int(int32(binary.LittleEndian.Uint32(copied[at:]))) + move - own
	binary.LittleEndian.PutUint32(copied[at:], uint32(value))
	if !known {
		r.guesses = append(r.guesses, guess{place + at, target / r.block, int(int32(value)), move})
	}
	return true
}
