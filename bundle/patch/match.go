package patch

import (
	"context"
	"encoding/binary"
	"math/bits"
)

const (
	// seedSize is the length of the shortest match that is found, in bytes.
	seedSize = 16
	// seedStride is the distance of the indexed places of the base, in bytes. Places in between are found by the match around them.
	seedStride = 4
	// maxCandidates bounds how many places of the base are tried for each place of the result.
	maxCandidates = 24
	// gain is how many bytes more a match must have than the current alignment, because a new alignment takes bytes itself.
	gain = 4
	// maxBackward limits how far an alignment is extended to the bytes before its match. Without a limit, repeated bytes take quadratic time.
	maxBackward = 4 << 10
	// checkEvery is how often the matcher looks whether it should end, in bytes of the result.
	checkEvery = 1 << 20
)

// alignment is a place of the base and the place of the result that is like it.
type alignment struct{ from, at int }

// matcher finds places of the base that are like places of the result. Shifted addresses make short differences in long matches: the
// current alignment is kept over them, until another one is better.
type matcher struct {
	base, result []byte
	newest       []int32 // by hash: the last indexed place of the base with it, or -1
	previous     []int32 // by indexed place: the one before it with the same hash
	shift        uint
}

func newMatcher(base, result []byte) *matcher {
	places := max(0, len(base)-seedSize+seedStride) / seedStride
	size := min(24, max(8, bits.Len(uint(places))))
	m := &matcher{base: base, result: result, newest: make([]int32, 1<<size), previous: make([]int32, places), shift: uint(64 - size)}
	for i := range m.newest {
		m.newest[i] = -1
	}
	for i := range places {
		h := m.hash(base[i*seedStride:])
		m.previous[i], m.newest[h] = m.newest[h], int32(i)
	}
	return m
}

// hash mixes the first seedSize bytes.
func (m *matcher) hash(p []byte) uint64 {
	a, b := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
	return ((a*0x9e3779b97f4a7c15)>>29 ^ a ^ b*0xc2b2ae3d27d4eb4f) * 0x9e3779b97f4a7c15 >> m.shift
}

// longest returns the place of the base with the longest match for a place of the result, and the length of the match.
func (m *matcher) longest(at int) (from, n int) {
	if at+seedSize > len(m.result) {
		return 0, 0
	}
	place := m.newest[m.hash(m.result[at:])]
	for tries := 0; place >= 0 && tries < maxCandidates; tries++ {
		candidate := int(place) * seedStride
		if k := common(m.base[candidate:], m.result[at:]); k > n {
			from, n = candidate, k
		}
		place = m.previous[place]
	}
	if n < seedSize {
		return 0, 0
	}
	return from, n
}

// common returns how many bytes at the beginning of a and b are the same.
func common(a, b []byte) (n int) {
	limit := min(len(a), len(b))
	for n+8 <= limit {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < limit && a[n] == b[n] {
		n++
	}
	return n
}

// steps passes the steps that build the result to add, in order.
func (m *matcher) steps(ctx context.Context, add func(step) error) error {
	now := alignment{}
	for at, checked := 0, 0; ; {
		if at-checked >= checkEvery {
			if err := ctx.Err(); err != nil {
				return err
			}
			checked = at
		}
		next, end, found := m.better(now, at, at+checkEvery)
		if at = end; !found && at < len(m.result) {
			continue
		}
		if !found {
			next = alignment{len(m.base), len(m.result)}
		}
		forward, backward := m.split(now, next, found)
		next.from, next.at = next.from-backward, next.at-backward
		if err := add(step{from: int32(now.from), at: int32(now.at), copy: int32(forward), fresh: int32(next.at - now.at - forward)}); err != nil || !found {
			return err
		}
		now = next
	}
}

// better searches the result from at to limit for a place where another alignment is better than the current one. end is where the
// search goes on.
func (m *matcher) better(now alignment, at, limit int) (next alignment, end int, found bool) {
	offset := now.from - now.at
	for limit = min(limit, len(m.result)); at < limit; {
		if from := at + offset; from >= 0 && from < len(m.base) {
			if n := common(m.base[from:], m.result[at:]); n >= seedSize {
				at += n
				continue
			}
		}
		from, n := m.longest(at)
		if n > 0 && from-at != offset && n > m.score(offset, at, n)+gain {
			return alignment{from, at}, at + n, true
		}
		at++
	}
	return now, at, false
}

// score counts the bytes of a range of the result that an alignment has.
func (m *matcher) score(offset, at, n int) (score int) {
	for i := at; i < at+n; i++ {
		if from := i + offset; from >= 0 && from < len(m.base) && m.base[from] == m.result[i] {
			score++
		}
	}
	return score
}

// split returns how many bytes between two alignments each of them covers: as long as more than half of the bytes are the same.
func (m *matcher) split(now, next alignment, found bool) (forward, backward int) {
	forward = m.extend(now.from, now.at, next.at, 1)
	if !found {
		return forward, 0
	}
	backward = m.extend(next.from-1, next.at-1, max(now.at, next.at-maxBackward), -1)
	over := forward + backward - (next.at - now.at)
	if over <= 0 {
		return forward, backward
	}
	// both cover these bytes: find the border with the fewest differences
	start := next.at - backward
	score, best, border := 0, 0, 0
	for i := start; i < start+over; i++ {
		if m.base[now.from+i-now.at] == m.result[i] {
			score++
		}
		if m.base[next.from+i-next.at] == m.result[i] {
			score--
		}
		if score >= best {
			best, border = score, i+1-start
		}
	}
	return forward - over + border, backward - border
}

// extend returns how many bytes an alignment covers from a place on, up to a limit, in one direction.
func (m *matcher) extend(from, at, limit, direction int) (length int) {
	score, best := 0, 0
	for n := 1; ; n++ {
		if direction > 0 && at >= limit || direction < 0 && at < limit || from < 0 || from >= len(m.base) {
			return length
		}
		if m.base[from] == m.result[at] {
			score++
		} else {
			score--
		}
		if score > best {
			best, length = score, n
		}
		from, at = from+direction, at+direction
	}
}
