package patch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// errDamaged reports a patch that does not have its format.
var errDamaged = errors.New("the patch is damaged")

// Reader reads the result of a patch.
type Reader struct {
	base           io.ReaderAt
	baseSize, left int64 // bytes of the base, and of the result that are still to come
	zstd           *zstd.Decoder
	in             *bufio.Reader

	at      int64 // in the base, after the last copied byte
	steps   []step
	changes []uint32 // places of the changed bytes, counted over the copied bytes of the segment
	made    []byte   // the segment
	out     []byte   // the part of made that was not read yet
	err     error
}

// NewReader returns a reader of the result: what the patch makes of the base. size is that of the result. The patch may be untrusted. The
// reader takes no more than Memory, and reads the base only within baseSize. Close does not close the patch or the base.
func NewReader(patch io.Reader, base io.ReaderAt, baseSize, size int64) (*Reader, error) {
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(patch, begin); err != nil || string(begin) != magic {
		return nil, errors.Join(errDamaged, err)
	}
	z, err := zstd.NewReader(patch, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(Window))
	if err != nil {
		return nil, err
	}
	return &Reader{base: base, baseSize: baseSize, left: size, zstd: z, in: bufio.NewReaderSize(z, 64<<10)}, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 && r.err == nil {
		if r.left == 0 {
			r.err = r.end()
			break
		}
		if r.err = r.next(); errors.Is(r.err, io.EOF) {
			r.err = io.ErrUnexpectedEOF
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	if n > 0 {
		return n, nil
	}
	return 0, r.err
}

// Close releases the memory.
func (r *Reader) Close() error {
	r.zstd.Close()
	return nil
}

// end returns io.EOF if the patch ends here.
func (r *Reader) end() error {
	_, err := r.in.ReadByte()
	if err == nil {
		err = fmt.Errorf("%w: it makes more than the index says", errDamaged)
	}
	return err
}

// next makes the next segment.
func (r *Reader) next() error {
	count, err := r.number(maxSteps)
	if err != nil {
		return err
	}
	changed, err := r.number(segment)
	if err != nil {
		return err
	}
	copied, fresh, err := r.readSteps(count)
	if err != nil {
		return err
	}
	if err := r.readChanges(changed, copied); err != nil {
		return err
	}
	return r.build(copied, fresh)
}

// readSteps reads the steps of a segment and returns how many bytes they copy and add.
func (r *Reader) readSteps(count int64) (copied, fresh int64, err error) {
	r.steps = r.steps[:0]
	for range count {
		move, err := binary.ReadVarint(r.in)
		if err != nil {
			return 0, 0, err
		}
		var s step
		if s.copy, err = r.number(segment); err != nil {
			return 0, 0, err
		}
		if s.fresh, err = r.number(segment); err != nil {
			return 0, 0, err
		}
		if move < -r.baseSize || move > r.baseSize {
			return 0, 0, errDamaged
		}
		s.from = r.at + move
		r.at = s.from + s.copy
		copied, fresh = copied+s.copy, fresh+s.fresh
		if s.from < 0 || r.at > r.baseSize || copied+fresh > min(segment, r.left) {
			return 0, 0, errDamaged
		}
		r.steps = append(r.steps, s)
	}
	if copied+fresh == 0 {
		return 0, 0, errDamaged
	}
	return copied, fresh, nil
}

func (r *Reader) readChanges(changed, copied int64) error {
	r.changes = r.changes[:0]
	for at := int64(0); changed > 0; changed-- {
		same, err := r.number(segment)
		if err != nil {
			return err
		}
		if at += same; at >= copied {
			return errDamaged
		}
		r.changes = append(r.changes, uint32(at))
		at++
	}
	return nil
}

// build makes the segment: the copied bytes of all steps, then the new ones.
func (r *Reader) build(copied, fresh int64) error {
	if r.made == nil {
		r.made = make([]byte, 2*segment)
	}
	all, out := r.made[segment:segment], r.made[:copied+fresh]
	for _, s := range r.steps {
		n := int64(len(all))
		all = all[:n+s.copy]
		if s.copy == 0 {
			continue
		}
		if _, err := r.base.ReadAt(all[n:], s.from); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the base of the patch: %w", err)
		}
	}
	for _, at := range r.changes {
		difference, err := r.in.ReadByte()
		if err != nil {
			return err
		}
		all[at] += difference
	}
	r.left -= int64(len(out))
	r.out = out
	for _, s := range r.steps {
		copy(out, all[:s.copy])
		if _, err := io.ReadFull(r.in, out[s.copy:s.copy+s.fresh]); err != nil {
			r.out = nil
			return err
		}
		all, out = all[s.copy:], out[s.copy+s.fresh:]
	}
	return nil
}

// number reads a number up to a limit.
func (r *Reader) number(limit int64) (int64, error) {
	n, err := binary.ReadUvarint(r.in)
	if err == nil && n > uint64(limit) {
		err = errDamaged
	}
	return int64(n), err
}
