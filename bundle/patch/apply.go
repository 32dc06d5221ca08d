package patch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

var (
	// errDamaged reports a patch that does not have its format.
	errDamaged = errors.New("the patch is damaged")
	// errFormat reports a patch of another format.
	errFormat = errors.New("the patch has another format than " + magic[:len(magic)-1] + "; make it with the sealift that applies it")
)

// Reader reads the result of a patch.
type Reader struct {
	base io.ReaderAt
	zstd *zstd.Decoder
	in   *bufio.Reader

	steps     []step // that are still to come
	addresses *addresses
	places    []int32 // of corrections, counted over the copied bytes of the segment
	copied    []byte  // of the segment
	made      []byte  // the segment
	out       []byte  // the part of made that was not read yet
	err       error
}

// NewReader returns a reader of the result: what the patch makes of the base. size is that of the result. The patch may be untrusted. The
// reader takes no more than Memory, and reads the base only within baseSize. Close does not close the patch or the base.
func NewReader(patch io.Reader, base io.ReaderAt, baseSize, size int64) (*Reader, error) {
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(patch, begin); err != nil {
		return nil, errors.Join(errDamaged, err)
	}
	if string(begin) != magic {
		return nil, errFormat
	}
	if max(baseSize, size) > MaxSize {
		return nil, ErrTooLarge
	}
	z, err := zstd.NewReader(patch, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(Window))
	if err != nil {
		return nil, err
	}
	r := &Reader{base: base, zstd: z, in: bufio.NewReaderSize(z, 64<<10)}
	if err := r.readHead(baseSize, size); err != nil {
		z.Close()
		return nil, unexpected(err)
	}
	return r, nil
}

// unexpected returns the error of a patch that ends too early for io.EOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 && r.err == nil {
		if len(r.steps) == 0 {
			r.err = r.end()
			break
		}
		r.err = unexpected(r.next())
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

// readHead reads the regions and the steps.
func (r *Reader) readHead(baseSize, size int64) error {
	regions, err := r.readRegions(baseSize)
	if err != nil {
		return err
	}
	count, err := r.number(maxSteps)
	if err != nil {
		return err
	}
	for range count {
		n, err := r.number(segment)
		if err != nil {
			return err
		}
		r.steps = append(r.steps, step{copy: int32(n)})
	}
	at := int64(0)
	for i := range r.steps {
		n, err := r.number(segment)
		if err != nil {
			return err
		}
		s := &r.steps[i]
		s.at, s.fresh = int32(at), int32(n)
		length := int64(s.copy) + n
		if length == 0 || at%segment+length > segment || at+length > size {
			return errDamaged
		}
		at += length
	}
	if at != size {
		return errDamaged
	}
	at = 0
	for i := range r.steps {
		move, err := binary.ReadVarint(r.in)
		if err != nil {
			return err
		}
		s := &r.steps[i]
		if move < -at || move > baseSize-at-int64(s.copy) {
			return errDamaged
		}
		at += move
		s.from = int32(at)
		at += int64(s.copy)
	}
	r.addresses = newAddresses(regions, r.steps, baseSize)
	return nil
}

func (r *Reader) readRegions(baseSize int64) (regions []region, err error) {
	count, err := r.number(maxRegions)
	if err != nil {
		return nil, err
	}
	end := int64(0)
	for range count {
		k, err := r.number(int64(kinds) - 1)
		if err != nil {
			return nil, err
		}
		gap, err := r.number(baseSize - end)
		if err != nil {
			return nil, err
		}
		length, err := r.number(baseSize - end - gap)
		if err != nil {
			return nil, err
		}
		bias, err := binary.ReadVarint(r.in)
		if err != nil {
			return nil, err
		}
		if k == 0 || length == 0 {
			return nil, errDamaged
		}
		regions = append(regions, region{kind(k), end + gap, end + gap + length, bias})
		end += gap + length
	}
	return regions, nil
}

// next makes the next segment: the copied bytes of all steps with their corrections, and the new ones between them.
func (r *Reader) next() error {
	steps := r.steps[:inSegment(r.steps)]
	r.steps = r.steps[len(steps):]
	if r.made == nil {
		r.made, r.copied = make([]byte, segment), make([]byte, 0, segment)
	}
	r.copied = r.copied[:0]
	for _, s := range steps {
		place := len(r.copied)
		r.copied = r.copied[:place+int(s.copy)]
		if s.copy == 0 {
			continue
		}
		if _, err := r.base.ReadAt(r.copied[place:], int64(s.from)); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the base of the patch: %w", err)
		}
		r.addresses.correct(s, r.copied[place:], place)
	}
	if err := r.readCorrections(); err != nil {
		return err
	}
	r.addresses.learn(r.copied)
	copied, made := r.copied, r.made[:0]
	for _, s := range steps {
		made = append(made, copied[:s.copy]...)
		copied = copied[s.copy:]
		n := len(made)
		made = made[:n+int(s.fresh)]
		if _, err := io.ReadFull(r.in, made[n:]); err != nil {
			return err
		}
	}
	r.out = made
	return nil
}

// readCorrections reads what is added to words of the copied bytes, and adds it.
func (r *Reader) readCorrections() error {
	count, err := r.number(segment)
	if err != nil {
		return err
	}
	r.places = r.places[:0]
	at := int64(0)
	for range count {
		gap, err := r.number(segment)
		if err != nil {
			return err
		}
		if at += gap; at >= int64(len(r.copied)) {
			return errDamaged
		}
		r.places = append(r.places, int32(at))
		at += word
	}
	for _, at := range r.places {
		addition, err := binary.ReadVarint(r.in)
		if err != nil {
			return err
		}
		var value [word]byte
		binary.LittleEndian.PutUint32(value[:], wordAt(r.copied, int(at))+uint32(addition))
		copy(r.copied[at:], value[:])
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
