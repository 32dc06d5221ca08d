package parts

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// magic begins each head.
const magic = "sealift.part/v1\n"

const (
	fixedSize = len(magic) + 3*4     // before the description
	tailSize  = sha256.Size + 4      // after the list of digests
	maxHead   = 64 << 20             // bytes of a head; its list of digests is enough for a part of 256 GiB
	maxText   = 64 << 10             // bytes of a description
	minHead   = fixedSize + tailSize // bytes
)

// ErrNotPart reports that a file is not a part.
var ErrNotPart = errors.New("is not a part of an archive")

// head is the description at the beginning of a part, and once more at its end.
type head struct {
	set    Set
	id     string // of the set
	number int    // of this part, from 0
	table  []byte // the sha256 of each block
	size   int64  // bytes of the head
	// scratched says which of the two copies cannot be read, or is empty.
	scratched string
}

// headSize is the size of a part's head.
func headSize(s Set, part int) (int64, error) {
	text, err := json.Marshal(s)
	size := int64(minHead+len(text)) + s.blocksOf(part)*sha256.Size
	if err == nil && (size > maxHead || len(text) > maxText) {
		err = fmt.Errorf("a part of %d bytes is too large; make smaller parts", s.PartSize)
	}
	return size, err
}

// encode writes the head of a part.
func (h head) encode() ([]byte, error) {
	text, err := json.Marshal(h.set)
	if err != nil {
		return nil, err
	}
	size := uint32(minHead + len(text) + len(h.table))
	out := make([]byte, 0, size)
	out = append(out, magic...)
	out = binary.BigEndian.AppendUint32(out, size)
	out = binary.BigEndian.AppendUint32(out, uint32(h.number+1))
	out = binary.BigEndian.AppendUint32(out, uint32(len(text)))
	out = append(out, text...)
	out = append(out, h.table...)
	sum := sha256.Sum256(out)
	out = append(out, sum[:]...)
	return binary.BigEndian.AppendUint32(out, size), nil
}

// decodeHead reads one copy of a head.
func decodeHead(data []byte) (head, error) {
	if len(data) < minHead || string(data[:len(magic)]) != magic {
		return head{}, ErrNotPart
	}
	body := data[:len(data)-tailSize]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], data[len(body):len(data)-4]) {
		return head{}, errors.New("its description is damaged")
	}
	for _, at := range []int{len(magic), len(data) - 4} {
		if got := binary.BigEndian.Uint32(data[at:]); int64(got) != int64(len(data)) {
			return head{}, fmt.Errorf("its description has %d bytes, and says that it has %d", len(data), got)
		}
	}
	number, length := binary.BigEndian.Uint32(body[len(magic)+4:]), binary.BigEndian.Uint32(body[len(magic)+8:])
	if length > maxText || int(length) > len(body)-fixedSize {
		return head{}, fmt.Errorf("its description of %d bytes is too long", length)
	}
	text := body[fixedSize : fixedSize+int(length)]
	h := head{table: body[fixedSize+int(length):], size: int64(len(data))}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h.set); err != nil {
		return head{}, fmt.Errorf("its description cannot be read: %w", err)
	}
	if err := h.set.validate(); err != nil {
		return head{}, err
	}
	h.id = sha256hex.Of(text)
	switch {
	case h.id != h.set.id():
		return head{}, errors.New("its description is not in the canonical form")
	case number < 1 || int64(number) > int64(h.set.total()):
		return head{}, fmt.Errorf("has number %d of %d", number, h.set.total())
	}
	h.number = int(number) - 1
	switch {
	case int64(len(h.table)) != h.set.blocksOf(h.number)*sha256.Size:
		return head{}, fmt.Errorf("has %d bytes of digests for %d blocks", len(h.table), h.set.blocksOf(h.number))
	case sha256hex.Of(h.table) != h.set.Parts[h.number]:
		return head{}, errors.New("has digests of other blocks than its description says")
	}
	return h, nil
}

// readHead reads the head of a part of size bytes: the first copy, or else the last one.
func readHead(r io.ReaderAt, size int64) (head, error) {
	h, first := readCopy(r, 0, size, len(magic))
	if first == nil {
		if size < 2*h.size || !sameCopy(r, h, size) {
			h.scratched = "the copy of its description at its end"
		}
		return h, nil
	}
	h, last := readCopy(r, max(0, size-4), size, 0)
	if last == nil {
		h.scratched = "its description"
		return h, nil
	}
	if errors.Is(first, ErrNotPart) {
		first = last
	}
	return head{}, first
}

// readCopy reads the copy of a head whose length is skip bytes after at. A copy with skip 0 ends with its length.
func readCopy(r io.ReaderAt, at, size int64, skip int) (head, error) {
	start := make([]byte, skip+4)
	if _, err := r.ReadAt(start, at); err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrNotPart
		}
		return head{}, err
	}
	length := int64(binary.BigEndian.Uint32(start[skip:]))
	if string(start[:skip]) != magic[:skip] || length < int64(minHead) || length > maxHead || length > size {
		return head{}, ErrNotPart
	}
	if skip == 0 {
		at = size - length
		begin := make([]byte, len(magic))
		if _, err := r.ReadAt(begin, at); err != nil || string(begin) != magic {
			return head{}, errors.Join(ErrNotPart, err)
		}
	}
	data := make([]byte, length)
	if _, err := r.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
		return head{}, err
	}
	return decodeHead(data)
}

// sameCopy reports whether the copy at the end of the part is that of its head.
func sameCopy(r io.ReaderAt, h head, size int64) bool {
	want, err := h.encode()
	if err != nil {
		return false
	}
	got := make([]byte, len(want))
	_, err = r.ReadAt(got, size-int64(len(got)))
	return (err == nil || errors.Is(err, io.EOF)) && bytes.Equal(got, want)
}

// IsPart reports whether a file is a part, as far as its beginning and its end say.
func IsPart(name string) bool {
	f, _, err := openPart(name)
	if f != nil {
		_ = f.Close()
	}
	return err == nil || f != nil && !errors.Is(err, ErrNotPart)
}

// openPart opens a file and reads its head. The file is open even if the head is damaged.
func openPart(name string) (*os.File, head, error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, head{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return f, head{}, err
	}
	h, err := readHead(f, info.Size())
	return f, h, err
}
