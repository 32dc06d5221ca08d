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

// Make writes the patch that makes result of base. The same contents yield the same patch. Besides both contents, it takes 64 MiB and as much
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
	return errors.Join(newMatcher(base, result).steps(ctx, e.add), e.flush(), z.Close())
}

// encoder writes steps in segments.
type encoder struct {
	base, result []byte
	w            io.Writer

	at             int64 // in the base, after the last copied byte
	count, changed uint64
	same           uint64 // copied bytes since the last changed one
	size           int64  // of the segment so far, in bytes of the result
	// steps, gaps, differences and fresh are the parts of the segment, in this order.
	steps, gaps, differences, fresh []byte
}

// add writes a step. One that is larger than the rest of the segment is cut.
func (e *encoder) add(s step) error {
	for s.copy+s.fresh > 0 {
		part := step{from: s.from, at: s.at, copy: min(s.copy, segment-e.size)}
		if part.copy == s.copy {
			part.fresh = min(s.fresh, segment-e.size-part.copy)
		}
		e.put(part)
		s = step{from: s.from + part.copy, at: s.at + part.copy + part.fresh, copy: s.copy - part.copy, fresh: s.fresh - part.fresh}
		if e.size == segment || e.count == maxSteps {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *encoder) put(s step) {
	e.steps = binary.AppendVarint(e.steps, s.from-e.at)
	e.steps = binary.AppendUvarint(e.steps, uint64(s.copy))
	e.steps = binary.AppendUvarint(e.steps, uint64(s.fresh))
	e.at = s.from + s.copy
	e.count++
	e.size += s.copy + s.fresh
	for i := range s.copy {
		difference := e.result[s.at+i] - e.base[s.from+i]
		if difference == 0 {
			e.same++
			continue
		}
		e.gaps = binary.AppendUvarint(e.gaps, e.same)
		e.differences = append(e.differences, difference)
		e.same = 0
		e.changed++
	}
	e.fresh = append(e.fresh, e.result[s.at+s.copy:s.at+s.copy+s.fresh]...)
}

// flush ends a segment.
func (e *encoder) flush() error {
	if e.count == 0 {
		return nil
	}
	head := binary.AppendUvarint(binary.AppendUvarint(nil, e.count), e.changed)
	for _, part := range [][]byte{head, e.steps, e.gaps, e.differences, e.fresh} {
		if _, err := e.w.Write(part); err != nil {
			return err
		}
	}
	e.count, e.changed, e.same, e.size = 0, 0, 0, 0
	e.steps, e.gaps, e.differences, e.fresh = e.steps[:0], e.gaps[:0], e.differences[:0], e.fresh[:0]
	return nil
}
