package patch

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// MaxSize is the largest base and result, in bytes.
const MaxSize = math.MaxInt32

// ErrTooLarge reports a content of more than MaxSize.
var ErrTooLarge = errors.New("too large for a patch")

// Make writes the patch that makes result of base. The same contents yield the same patch. Besides both contents, it takes 128 MiB and as much
// memory as the base has.
func Make(ctx context.Context, w io.Writer, base, result []byte) error {
	if max(len(base), len(result)) > MaxSize {
		return ErrTooLarge
	}
	if _, err := io.WriteString(w, magic); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(Window), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return err
	}
	e := &encoder{base: base, result: result, w: z}
	err = newMatcher(base, result).steps(ctx, e.add)
	if err == nil {
		err = e.write(ctx)
	}
	return errors.Join(err, z.Close())
}

// encoder writes steps in segments.
type encoder struct {
	base, result []byte
	w            io.Writer
	steps        []step
	// assumed are the copied bytes of the segment with corrected addresses, copied those of the result, and the others its other parts.
	assumed, copied, fresh, gaps, additions []byte
}

// add takes a step. One that crosses the end of a segment is cut. What is left after too many steps is new bytes.
func (e *encoder) add(s step) error {
	if len(e.steps) >= maxSteps-MaxSize/segment-1 {
		s.copy, s.fresh = 0, s.copy+s.fresh
	}
	for s.copy+s.fresh > 0 {
		room := segment - s.at%segment
		part := step{from: s.from, at: s.at, copy: min(s.copy, room)}
		if part.copy == s.copy {
			part.fresh = min(s.fresh, room-part.copy)
		}
		if last := len(e.steps) - 1; part.copy == 0 && last >= 0 && room < segment {
			e.steps[last].fresh += part.fresh
		} else {
			e.steps = append(e.steps, part)
		}
		s = step{from: s.from + part.copy, at: s.at + part.copy + part.fresh, copy: s.copy - part.copy, fresh: s.fresh - part.fresh}
	}
	return nil
}

// write writes the head and all segments.
func (e *encoder) write(ctx context.Context) error {
	regions := regionsOf(e.base)
	if _, err := e.w.Write(e.head(regions)); err != nil {
		return err
	}
	a := newAddresses(regions, e.steps, int64(len(e.base)))
	for rest := e.steps; len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := inSegment(rest)
		if err := e.segment(a, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// inSegment returns how many of the steps are in the segment of the first one.
func inSegment(steps []step) (n int) {
	for n < len(steps) && steps[n].at/segment == steps[0].at/segment {
		n++
	}
	return n
}

func (e *encoder) head(regions []region) (head []byte) {
	head = binary.AppendUvarint(head, uint64(len(regions)))
	for n, r := range regions {
		gap := r.from
		if n > 0 {
			gap -= regions[n-1].to
		}
		head = binary.AppendUvarint(binary.AppendUvarint(head, uint64(r.kind)), uint64(gap))
		head = binary.AppendVarint(binary.AppendUvarint(head, uint64(r.to-r.from)), r.bias)
	}
	head = binary.AppendUvarint(head, uint64(len(e.steps)))
	for _, s := range e.steps {
		head = binary.AppendUvarint(head, uint64(s.copy))
	}
	for _, s := range e.steps {
		head = binary.AppendUvarint(head, uint64(s.fresh))
	}
	at := int32(0)
	for _, s := range e.steps {
		head = binary.AppendVarint(head, int64(s.from)-int64(at))
		at = s.from + s.copy
	}
	return head
}

// segment writes the corrections and the new bytes of a segment.
func (e *encoder) segment(a *addresses, steps []step) error {
	e.assumed, e.copied, e.fresh, e.gaps, e.additions = e.assumed[:0], e.copied[:0], e.fresh[:0], e.gaps[:0], e.additions[:0]
	for _, s := range steps {
		place := len(e.assumed)
		e.assumed = append(e.assumed, e.base[s.from:s.from+s.copy]...)
		a.correct(s, e.assumed[place:], place)
		e.copied = append(e.copied, e.result[s.at:s.at+s.copy]...)
		e.fresh = append(e.fresh, e.result[s.at+s.copy:s.at+s.copy+s.fresh]...)
	}
	count := uint64(0)
	for at, end := 0, 0; at < len(e.copied); {
		if e.assumed[at] == e.copied[at] {
			at++
			continue
		}
		e.gaps = binary.AppendUvarint(e.gaps, uint64(at-end))
		e.additions = binary.AppendVarint(e.additions, int64(int32(wordAt(e.copied, at)-wordAt(e.assumed, at))))
		at += word
		end = at
		count++
	}
	a.learn(e.copied)
	for _, part := range [][]byte{binary.AppendUvarint(nil, count), e.gaps, e.additions, e.fresh} {
		if _, err := e.w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// wordAt returns the little-endian word at a place, with zeros for what is behind the end.
func wordAt(data []byte, at int) uint32 {
	if at+word <= len(data) {
		return binary.LittleEndian.Uint32(data[at:])
	}
	var last [word]byte
	copy(last[:], data[at:])
	return binary.LittleEndian.Uint32(last[:])
}
