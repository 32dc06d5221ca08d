package patch

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sort"
)

const (
	// minBlock is the smallest block, as a power of two. maxBlocks limits how many there are.
	minBlock, maxBlocks = 5, 1 << 20
)

// kind says how a region of the base has addresses.
type kind uint64

const (
	// amd64 is machine code: the four bytes after a call, a jump or an operation are a place, counted from the next instruction.
	amd64 kind = iota + 1
	// pointers are addresses of eight bytes.
	pointers
	kinds // all kinds are smaller
)

// region is a part of the base that has addresses of one kind.
type region struct {
	kind     kind
	from, to int64
	// bias is what a pointer has more than its place in the base.
	bias int64
}

// addresses corrects addresses in copied bytes for what moved. Where no step tells that, it learns from its errors, with what the result has.
type addresses struct {
	regions []region
	moves   []move
	span    int64   // targets lie below: in the base, or in the memory after it that a program asks for
	block   uint    // as a power of two
	learned []int32 // by block: how far what no step copies moved
	fields  []field // of the segment so far
}

// move is how far the bytes of the base moved from a place on: as far as the longest step that copies them.
type move struct{ from, by int32 }

// nowhere is the move of bytes that no step copies.
const nowhere = math.MinInt32

// field is an address that was corrected for a target that no step copies.
type field struct {
	place, block int32 // in the copied bytes of the segment, and of the target
	value, by    int32 // that were assumed
}

// newAddresses returns addresses for the steps of a patch. At first, a block that no step copies moved as what is before it.
func newAddresses(regions []region, steps []step, baseSize int64) *addresses {
	a := &addresses{regions: regions, span: baseSize + baseSize/2}
	if len(regions) == 0 {
		return a
	}
	a.moves = movesOf(steps)
	a.block = uint(max(minBlock, bits.Len64(uint64(a.span)/maxBlocks)))
	a.learned = make([]int32, a.span>>a.block+1)
	next, by := 0, int32(0)
	for b := range a.learned {
		for ; next < len(a.moves) && int64(a.moves[next].from)>>a.block <= int64(b); next++ {
			if m := a.moves[next].by; m != nowhere {
				by = m
			}
		}
		a.learned[b] = by
	}
	return a
}

// movesOf returns how far the bytes of the base moved.
func movesOf(steps []step) (moves []move) {
	order := make([]int, 0, len(steps)) // where they begin in the base, and their numbers
	for n, s := range steps {
		if s.copy > 0 {
			order = append(order, int(s.from)<<32|n)
		}
	}
	slices.Sort(order)
	open := &longest{steps: steps}
	for at := int64(0); len(order) > 0 || open.Len() > 0; {
		for len(order) > 0 && int64(order[0]>>32) <= at {
			heap.Push(open, int32(order[0]))
			order = order[1:]
		}
		for open.Len() > 0 && open.end() <= at {
			heap.Pop(open)
		}
		by, end := int32(nowhere), int64(math.MaxInt64)
		if open.Len() > 0 {
			s := steps[open.numbers[0]]
			by, end = s.at-s.from, open.end()
		}
		if len(moves) == 0 || moves[len(moves)-1].by != by {
			moves = append(moves, move{int32(at), by})
		}
		if len(order) > 0 {
			end = min(end, int64(order[0]>>32))
		}
		at = end
	}
	return moves
}

// longest is a heap of numbers of steps with the longest one first, of several the first one.
type longest struct {
	steps   []step
	numbers []int32
}

func (l *longest) Len() int      { return len(l.numbers) }
func (l *longest) Swap(i, j int) { l.numbers[i], l.numbers[j] = l.numbers[j], l.numbers[i] }
func (l *longest) Less(i, j int) bool {
	x, y := l.numbers[i], l.numbers[j]
	return cmp.Or(cmp.Compare(l.steps[y].copy, l.steps[x].copy), cmp.Compare(x, y)) < 0
}
func (l *longest) Push(n any) { l.numbers = append(l.numbers, n.(int32)) }
func (l *longest) Pop() any {
	last := len(l.numbers) - 1
	n := l.numbers[last]
	l.numbers = l.numbers[:last]
	return n
}

// end is where the longest step ends in the base.
func (l *longest) end() int64 {
	s := l.steps[l.numbers[0]]
	return int64(s.from) + int64(s.copy)
}

// moved returns how far a target moved, or nowhere.
func (a *addresses) moved(target int64) int32 {
	after := sort.Search(len(a.moves), func(i int) bool { return int64(a.moves[i].from) > target })
	if after == 0 {
		return nowhere
	}
	return a.moves[after-1].by
}

// correct changes the addresses in the copied bytes of a step. place is where data begins in the copied bytes of the segment.
func (a *addresses) correct(s step, data []byte, place int) {
	from, to := int64(s.from), int64(s.from)+int64(len(data))
	first := sort.Search(len(a.regions), func(i int) bool { return a.regions[i].to > from })
	for _, r := range a.regions[first:] {
		if r.from >= to {
			return
		}
		begin, end := int(max(r.from, from)-from), int(min(r.to, to)-from)
		if r.kind == amd64 {
			a.amd64(s, data, place, begin, end)
		} else {
			a.pointers(r, s, data, place, begin, end)
		}
	}
}

// operations are those of amd64 whose operand can be a place counted from the next instruction. The value is one more than the bytes of
// the constant after it.
var operations = func() (all [256]byte) {
	for n, codes := range [][]byte{
		0: {
			0x01, 0x03, 0x09, 0x0b, 0x10, 0x11, 0x13, 0x21, 0x23, 0x28, 0x29, 0x2b, 0x2e, 0x2f, 0x31, 0x33, 0x38, 0x39, 0x3a, 0x3b, 0x63, 0x6f,
			0x7e, 0x7f, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8d, 0xaf, 0xb1, 0xb6, 0xb7, 0xbe, 0xbf, 0xc1, 0xef, 0xfe, 0xff,
		},
		1: {0x80, 0x83, 0xc6, 0x6b},
		4: {0x81, 0xc7, 0x69},
	} {
		for _, code := range codes {
			all[code] = byte(n) + 1
		}
	}
	return all
}()

// amd64 corrects calls, jumps and operands: what does not move with the instruction.
func (a *addresses) amd64(s step, data []byte, place, begin, end int) {
	for i, free := begin, begin; i < end; i++ {
		at, constant := i+1, 0
		switch op := data[i]; {
		case op == 0xe8 || op == 0xe9:
		case op == 0x0f && i+1 < end && data[i+1]&0xf0 == 0x80:
			at++
		case op&0xc7 == 0x05 && i > free && operations[data[i-1]] > 0:
			constant = int(operations[data[i-1]]) - 1
		default:
			continue
		}
		if at+word > end {
			continue
		}
		target := int64(s.from) + int64(at+word+constant) + int64(int32(binary.LittleEndian.Uint32(data[at:])))
		if a.adjust(data[at:], target, s.at-s.from, place+at) {
			i, free = at+word-1, at+word
		}
	}
}

func (a *addresses) pointers(r region, s step, data []byte, place, begin, end int) {
	for i := begin + int(-(int64(s.from)+int64(begin))&7); i+8 <= end; i += 8 {
		if value := binary.LittleEndian.Uint64(data[i:]); value != 0 {
			a.adjust(data[i:], int64(value)-r.bias, 0, place+i)
		}
	}
}

// adjust changes the address of a target, unless that is outside of everything. own is how far the address itself moved, if that counts.
func (a *addresses) adjust(data []byte, target int64, own int32, place int) bool {
	if target < 0 || target >= a.span {
		return false
	}
	by, block := a.moved(target), int32(target>>a.block)
	unknown := by == nowhere
	if unknown {
		by = a.learned[block]
	}
	value := int32(binary.LittleEndian.Uint32(data)) + by - own
	binary.LittleEndian.PutUint32(data, uint32(value))
	if unknown {
		a.fields = append(a.fields, field{int32(place), block, value, by})
	}
	return true
}

// learn compares the addresses of a segment with those in the result: copied has its bytes.
func (a *addresses) learn(copied []byte) {
	for _, f := range a.fields {
		if wrong := int32(binary.LittleEndian.Uint32(copied[f.place:])) - f.value; wrong != 0 {
			a.learned[f.block] = f.by + wrong
		}
	}
	a.fields = a.fields[:0]
}
