package parts

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// cached is how many blocks stay in memory: readers of a few files read theirs one after the other, in small pieces.
const cached = 32

// Reader reads an archive from its parts. Each block is compared with its digest. What is damaged or missing is computed from the
// other parts. It may be used by several goroutines.
type Reader struct {
	set   Set
	id    string
	notes []string
	files []*file // nil for a missing part
	code  code

	mu      sync.Mutex
	cache   map[place]*block
	order   []place // of the cache, the oldest first
	rebuilt map[int]int

	repair sync.Mutex // one repair at a time bounds the memory
	known  []int      // the parts of the last repair, and their weights
	want   int
	weight []byte
}

// file is an open part.
type file struct {
	head
	copies []*os.File // each file with the part
	mu     sync.Mutex
	bad    map[int64]bool // blocks that no copy has
	// spoiled are the names of damaged copies that another one replaces.
	spoiled map[string]bool
}

// name is that of the copy that is read first.
func (f *file) name() string { return f.copies[0].Name() }

// place is a block of a part, both counted from 0.
type place struct {
	part  int
	block int64
}

type block struct {
	once sync.Once
	data []byte
	err  error
}

// DamageError reports bytes that cannot be computed from the other parts.
type DamageError struct {
	At     int64  // the place in the archive, in bytes
	Bad    []int  // the numbers of the parts that are damaged there, from 1
	Gone   []int  // those of missing parts
	Needed int    // how many parts are needed
	Note   string // about a part
}

func (e *DamageError) Error() string {
	var what []string
	if len(e.Bad) > 0 {
		what = append(what, list(e.Bad)+" damaged")
	}
	if len(e.Gone) > 0 {
		what = append(what, list(e.Gone)+" missing")
	}
	return fmt.Sprintf("byte %d cannot be repaired: %s there, and %d parts are needed; copy one of them again%s", e.At, strings.Join(what, " and "), e.Needed, e.Note)
}

// Set describes the parts.
func (r *Reader) Set() Set { return r.set }

// Size is the number of bytes of the archive.
func (r *Reader) Size() int64 { return r.set.Size }

// Missing lists the numbers of the parts that were not found.
func (r *Reader) Missing() (numbers []int) {
	for n, f := range r.files {
		if f == nil {
			numbers = append(numbers, n+1)
		}
	}
	return numbers
}

// Close closes the parts.
func (r *Reader) Close() error {
	var errs []error
	for _, f := range r.files {
		if f == nil {
			continue
		}
		for _, one := range f.copies {
			errs = append(errs, one.Close())
		}
	}
	return errors.Join(errs...)
}

// ReadAt implements io.ReaderAt for the archive. The error is a *DamageError where too much is lost.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read the parts at %d: no such offset", off)
	}
	for n < len(p) {
		at := off + int64(n)
		if at >= r.set.Size {
			return n, io.EOF
		}
		part, within := int(at/r.set.PartSize), at%r.set.PartSize
		data, err := r.block(place{part, within / r.set.Block})
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data[within%r.set.Block:])
	}
	return n, nil
}

// block returns a block of a data part.
func (r *Reader) block(at place) ([]byte, error) {
	r.mu.Lock()
	b := r.cache[at]
	if b == nil {
		b = &block{}
		r.cache[at] = b
		if r.order = append(r.order, at); len(r.order) > cached {
			delete(r.cache, r.order[0])
			r.order = r.order[1:]
		}
	}
	r.mu.Unlock()
	b.once.Do(func() {
		if b.data = r.read(at); b.data == nil {
			b.data, b.err = r.rebuild(at)
		}
	})
	return b.data, b.err
}

// read reads a block and compares it with its digest. It returns nil if the block is lost.
func (r *Reader) read(at place) []byte {
	f := r.files[at.part]
	if f == nil {
		return nil
	}
	data := make([]byte, r.set.blockLength(at.part, at.block))
	for i, one := range f.copies {
		n, _ := one.ReadAt(data, f.size+at.block*r.set.Block) // a disk that cannot read a sector is the reason for parity
		if n == len(data) && f.matches(at.block, data) {
			f.spoil(f.copies[:i])
			return data
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bad[at.block] = true
	return nil
}

// spoil notes damaged copies, which another one replaced.
func (f *file) spoil(copies []*os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range copies {
		f.spoiled[one.Name()] = true
	}
}

// spoiled says which damaged copies of parts others replace.
func (r *Reader) spoiled() (notes []string) {
	for part, f := range r.files {
		if f == nil {
			continue
		}
		f.mu.Lock()
		for _, one := range f.copies {
			if f.spoiled[one.Name()] {
				notes = append(notes, fmt.Sprintf("%s is damaged, and another copy of part %d was read", one.Name(), part+1))
			}
		}
		f.mu.Unlock()
	}
	return notes
}

func (h head) matches(block int64, data []byte) bool {
	sum := sha256.Sum256(data)
	return bytes.Equal(sum[:], h.table[block*sha256.Size:][:sha256.Size])
}

// rebuild computes a block of a data part from the same block of other parts.
func (r *Reader) rebuild(at place) ([]byte, error) {
	r.repair.Lock()
	defer r.repair.Unlock()
	damage := &DamageError{At: int64(at.part)*r.set.PartSize + at.block*r.set.Block, Needed: r.set.Data}
	var known []int
	var symbols [][]byte
	for part := range r.set.total() {
		if len(known) == r.set.Data {
			break
		}
		data := []byte{}
		if r.set.blockLength(part, at.block) > 0 { // after the end of the last data part are zeros
			data = r.read(place{part, at.block})
		}
		switch {
		case data != nil:
			known, symbols = append(known, part), append(symbols, data)
		case r.files[part] == nil:
			damage.Gone = append(damage.Gone, part+1)
		default:
			damage.Bad = append(damage.Bad, part+1)
		}
	}
	if len(known) < r.set.Data {
		return nil, damage
	}
	if r.want != at.part || !slices.Equal(r.known, known) {
		weight, err := r.code.weights(known, at.part)
		if err != nil {
			return nil, err
		}
		r.known, r.want, r.weight = known, at.part, weight
	}
	data := r.code.combine(r.weight, symbols, r.set.blockLength(at.part, at.block))
	if f := r.files[at.part]; f != nil && !f.matches(at.block, data) {
		damage.Note = fmt.Sprintf("; what the others give is not what %s should have", f.name())
		return nil, damage
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rebuilt == nil {
		r.rebuilt = make(map[int]int)
	}
	r.rebuilt[at.part]++
	return data, nil
}

// Repaired says which parts of the archive were computed from others so far, and which files were of no use; empty if all was well.
func (r *Reader) Repaired() (notes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for part, f := range r.files {
		if f != nil && f.scratched != "" {
			notes = append(notes, fmt.Sprintf("part %d (%s): %s is damaged", part+1, f.name(), f.scratched))
		}
		switch {
		case r.rebuilt[part] == 0:
		case f == nil:
			notes = append(notes, fmt.Sprintf("part %d is missing: repaired from the others", part+1))
		default:
			f.mu.Lock()
			notes = append(notes, fmt.Sprintf("part %d (%s) is damaged: %d of its %d blocks repaired from the others", part+1, f.name(), len(f.bad), r.set.blocksOf(part)))
			f.mu.Unlock()
		}
	}
	return slices.Concat(notes, r.spoiled(), r.notes)
}
