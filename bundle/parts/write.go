package parts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/sha256hex"
)

// writeBuffer is the memory, in bytes, for the parts that are written beside each other.
const writeBuffer = 32 << 20

// Options say how an archive is split.
type Options struct {
	Archive string // sha256 of its index, in lower-case hex
	Limit   int64  // the largest file, in bytes
	Parity  int    // parity parts for each 100 data parts, rounded up
}

// Name returns the file name of a part, numbered from 1.
func Name(base string, number int) string { return fmt.Sprintf("%s.part-%03d", base, number) }

// Plan divides an archive of size bytes into parts of equal size, as few as the limit allows. Its Parts are placeholders.
func Plan(size int64, o Options) (Set, error) {
	for data := max(1, size/o.Limit); ; data++ {
		partSize := (size + data - 1) / data
		if data > 1 {
			partSize = (partSize + blockSize - 1) / blockSize * blockSize
		}
		s := Set{Format: Format, Archive: o.Archive, Size: size, Block: blockSize, PartSize: partSize, Data: int((size + partSize - 1) / partSize)}
		s.Parity = (s.Data*o.Parity + 99) / 100
		if data > MaxParts || s.total() > MaxParts {
			return Set{}, fmt.Errorf("more than %d parts would be needed: %d bytes are too few for a part", MaxParts, o.Limit)
		}
		s.Parts = make([]string, s.total())
		for n := range s.Parts {
			s.Parts[n] = sha256hex.Of("")
		}
		header, err := headSize(s, 0)
		if err != nil {
			return Set{}, err
		}
		if 2*header+partSize <= o.Limit {
			return s, s.validate()
		}
	}
}

// Write writes the parts of an archive into a folder, under the names that Name gives them, and syncs them. It reads each byte
// of src once. With parity it reads from as many places as there are data parts, in turn.
func Write(ctx context.Context, folder, base string, src io.ReaderAt, size int64, o Options) (Set, error) {
	set, err := Plan(size, o)
	if err != nil {
		return Set{}, err
	}
	w := &writer{Set: set, src: src, code: code{data: set.Data, parity: set.Parity}}
	defer w.close()
	if err := w.create(folder, base); err != nil {
		return Set{}, err
	}
	if set.Parity > 0 {
		err = w.fill(ctx, 0, set.Data)
	}
	for part := 0; set.Parity == 0 && part < set.Data && err == nil; part++ {
		err = w.fill(ctx, part, part+1) // in the order of the archive
	}
	if err != nil {
		return Set{}, err
	}
	return w.finish()
}

type writer struct {
	Set
	src    io.ReaderAt
	code   code
	files  []*os.File
	tables [][]byte
	header []int64
}

func (w *writer) create(folder, base string) error {
	for part := range w.total() {
		f, err := os.OpenFile(filepath.Join(folder, Name(base, part+1)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		w.files = append(w.files, f)
		header, err := headSize(w.Set, part)
		if err != nil {
			return err
		}
		w.header = append(w.header, header)
		w.tables = append(w.tables, make([]byte, w.blocksOf(part)*sha256.Size))
	}
	return nil
}

// close closes the files that finish left open.
func (w *writer) close() {
	for _, f := range w.files {
		_ = f.Close()
	}
}

// fill writes the data parts from first to before end, beside each other, and the parity parts if these are all.
func (w *writer) fill(ctx context.Context, first, end int) error {
	span := max(1, writeBuffer/int64(end-first+w.Parity)/w.Block) * w.Block
	buffers := make([][]byte, end-first)
	sums := make([][]byte, w.Parity)
	for n := range sums {
		sums[n] = make([]byte, span)
	}
	for at := int64(0); at < w.bytesOf(first); at += span {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for n := range buffers {
			part := first + n
			length := max(0, min(span, w.bytesOf(part)-at))
			if buffers[n] == nil {
				buffers[n] = make([]byte, span)
			}
			data := buffers[n][:length]
			if err := ctx.Err(); err != nil {
				return errors.Join(context.Cause(ctx), group.Wait())
			}
			if err := readFull(w.src, data, int64(part)*w.PartSize+at); err != nil {
				return errors.Join(fmt.Errorf("read the archive: %w", err), group.Wait())
			}
			group.Go(func() error { return w.put(part, at, data) })
		}
		length := min(span, w.bytesOf(first)-at)
		for n := range sums {
			group.Go(func() error {
				sum := sums[n][:length]
				clear(sum)
				for part := range buffers {
					data := buffers[part][:max(0, min(length, w.bytesOf(part)-at))]
					w.code.field.GalMulSliceXor(w.code.factor(n, part), data, sum)
				}
				return w.put(w.Data+n, at, sum)
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func readFull(src io.ReaderAt, data []byte, at int64) error {
	n, err := src.ReadAt(data, at)
	if n == len(data) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// put writes blocks of a part from an offset on, and remembers their digests.
func (w *writer) put(part int, at int64, data []byte) error {
	for done := int64(0); done < int64(len(data)); done += w.Block {
		sum := sha256.Sum256(data[done:min(done+w.Block, int64(len(data)))])
		copy(w.tables[part][(at+done)/w.Block*sha256.Size:], sum[:])
	}
	_, err := w.files[part].WriteAt(data, w.header[part]+at)
	return err
}

// finish writes the heads, whose digests are known now.
func (w *writer) finish() (Set, error) {
	for part, table := range w.tables {
		w.Parts[part] = sha256hex.Of(table)
	}
	for part, f := range w.files {
		text, err := head{set: w.Set, number: part, table: w.tables[part]}.encode()
		if err == nil && int64(len(text)) != w.header[part] {
			err = fmt.Errorf("%s: a head of %d bytes does not fit into %d", f.Name(), len(text), w.header[part])
		}
		for _, at := range []int64{0, w.header[part] + w.bytesOf(part)} {
			if err == nil {
				_, err = f.WriteAt(text, at)
			}
		}
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return Set{}, err
		}
	}
	return w.Set, nil
}
