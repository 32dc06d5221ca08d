package runtime

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/compression"
)

// guessedRatio is how many times larger a layer is unpacked where its file does not say it. Most are smaller.
const guessedRatio = 4

// UnpackedSize is how many bytes the layouts take on a node: every distinct blob once, and every distinct layer once unpacked.
// Layers are not read for that, only the sizes in their files. The layers of a docker-archive are stored uncompressed, so that
// they count twice.
func UnpackedSize(layouts ...*Layout) (int64, error) {
	sizes, err := sizesOf(layouts)
	var total int64
	for _, size := range sizes {
		total += size.packed + size.unpacked
	}
	return total, err
}

// size is the disk space of a blob on a node, in bytes: packed and unpacked.
type size struct{ packed, unpacked int64 }

// sizesOf returns the sizes of all blobs of layouts, by their sha256 in hex.
func sizesOf(layouts []*Layout) (map[string]size, error) {
	sizes := make(map[string]size)
	for _, l := range layouts {
		for _, e := range l.archive.Below(path.Join(l.dir, ocispec.ImageBlobsDir)) {
			if _, counted := sizes[e.SHA256]; counted || l.Skip != nil && l.Skip(e.Path) {
				continue
			}
			if e.Layer != nil {
				sizes[e.SHA256] = size{e.Size, e.Layer.Size}
				continue
			}
			unpacked, err := sizedEntry(l.archive, e).unpacked()
			if err != nil {
				return nil, err
			}
			sizes[e.SHA256] = size{e.Size, unpacked}
		}
		for _, image := range l.Images {
			if image.archive.Path == "" {
				continue
			}
			unpacked, err := sizedEntry(l.archive, image.archive).unpacked()
			if err != nil {
				return nil, err
			}
			sizes[image.archive.SHA256] = size{unpacked, unpacked}
		}
	}
	return sizes, nil
}

// sized is a file whose size once unpacked is wanted.
type sized struct {
	size   int64
	local  bool // each read is no request to a server
	readAt func(data []byte, off int64) error
}

func sizedEntry(a *bundle.Archive, e bundle.Entry) sized {
	return sized{e.Size, a.Local(), func(data []byte, off int64) error { return a.ReadAt(e.Path, data, off) }}
}

// read reads n bytes, or as many as there are from off on.
func (s sized) read(off int64, n int) ([]byte, error) {
	data := make([]byte, max(min(int64(n), s.size-off), 0))
	if len(data) == 0 {
		return nil, nil
	}
	return data, s.readAt(data, off)
}

// tarMagic stands at this offset of a tar (POSIX.1-1988 ustar).
const tarMagic, tarMagicAt = "ustar", 257

// unpacked returns the size of a layer once it is unpacked, and 0 for another file.
func (s sized) unpacked() (int64, error) {
	if s.size < 18 { // the header and the end of a gzip file
		return 0, nil
	}
	head, err := s.read(0, tarMagicAt+len(tarMagic))
	if err != nil {
		return 0, err
	}
	switch compression.Of(head) {
	case compression.Gzip:
		return s.gzip()
	case compression.Zstd:
		return s.zstd()
	}
	if len(head) > tarMagicAt && string(head[tarMagicAt:]) == tarMagic {
		return s.size, nil
	}
	return 0, nil
}

// gzip stores the size in the last four bytes (RFC 1952 §2.3.1), modulo 4 GiB, and only that of the last member.
func (s sized) gzip() (int64, error) {
	tail, err := s.read(max(s.size-stargzFooter, 0), stargzFooter)
	if err != nil {
		return 0, err
	}
	if toc := tocOffset(tail); toc > 0 && toc < s.size {
		if size, err := s.stargz(toc); err != nil || size > 0 {
			return size, err
		}
	}
	size := int64(binary.LittleEndian.Uint32(tail[len(tail)-4:]))
	least := s.size - s.size/1000 - 64 // what cannot be compressed grows by less than that
	switch {
	case size >= least:
		return size, nil
	case s.size < 1<<30: // hardly a layer of more than 4 GiB, so it has several members
		return guessedRatio * s.size, nil
	}
	return size + (least-size+1<<32-1)>>32<<32, nil
}

// stargzFooter is the size of the last member of an eStargz layer. It is empty, and its header says where the table of
// contents begins.
const stargzFooter = 51

// maxTOC bounds a table of contents, in bytes: 100,000 files take 30 MB.
const maxTOC = 64 << 20

// tocOffset reads the footer of an eStargz layer; 0 means that it is none. The first form of it had no subfield around the
// offset and was four bytes shorter.
func tocOffset(tail []byte) int64 {
	for _, skip := range []int{0, 4} {
		if len(tail) != stargzFooter {
			return 0
		}
		z, err := gzip.NewReader(bytes.NewReader(tail[skip:]))
		if err != nil {
			continue
		}
		text, ok := bytes.CutSuffix(z.Extra, []byte("STARGZ"))
		if offset, err := strconv.ParseInt(string(bytes.TrimPrefix(text, []byte{'S', 'G', 22, 0})), 16, 63); ok && err == nil {
			return offset
		}
	}
	return 0
}

// stargz adds up the files of a table of contents, as a tar has them. An unreadable table counts as 0.
func (s sized) stargz(at int64) (int64, error) {
	data, err := s.read(at, int(min(s.size-at, maxTOC)))
	if err != nil {
		return 0, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, nil //nolint:nilerr // it is another kind of gzip file
	}
	files := tar.NewReader(z)
	if _, err := files.Next(); err != nil {
		return 0, nil //nolint:nilerr // it is another kind of gzip file
	}
	var toc struct {
		Entries []struct {
			Type string `json:"type"`
			Size int64  `json:"size"`
		} `json:"entries"`
	}
	if err := json.NewDecoder(io.LimitReader(files, maxTOC)).Decode(&toc); err != nil {
		return 0, nil //nolint:nilerr // it is another kind of gzip file
	}
	var total int64
	for _, e := range toc.Entries {
		if e.Type != "chunk" { // a part of the file before it
			total += 512 + (max(e.Size, 0)+511)/512*512
		}
	}
	return total, nil
}

// maxZstdBlock is the most that a block unpacks to (RFC 8878 §3.1.1.2.4).
const maxZstdBlock = 128 << 10

// zstd adds up the frames of a file. A frame without its size has no more than its blocks can hold. Where each read is a
// request, the first frame represents the file.
func (s sized) zstd() (int64, error) {
	w := zstdWalk{sized: s}
	for w.at < s.size {
		err := w.frame()
		switch {
		case err == errNotZstd: //nolint:errorlint // it is returned unchanged
			return max(w.total, guessedRatio*s.size), nil
		case err != nil:
			return 0, err
		}
	}
	return w.total, nil
}

var errNotZstd = fmt.Errorf("not a sequence of zstd frames: %w", io.ErrUnexpectedEOF)

type zstdWalk struct {
	sized
	at, total int64
}

// frame steps over a frame.
func (w *zstdWalk) frame() error {
	data, err := w.read(w.at, zstd.HeaderMaxSize)
	if err != nil {
		return err
	}
	var h zstd.Header
	if h.Decode(data) != nil {
		return errNotZstd
	}
	w.at += int64(h.HeaderSize)
	switch {
	case h.Skippable:
		w.at += int64(h.SkippableSize)
		return nil
	case h.HasFCS:
		w.total += int64(min(h.FrameContentSize, 1<<50))
	}
	if !w.local {
		if !h.HasFCS || w.total < w.size/2 { // one of many frames
			return errNotZstd
		}
		w.at = w.size
		return nil
	}
	most := int64(maxZstdBlock)
	if !h.SingleSegment {
		most = min(most, int64(min(h.WindowSize, 1<<50)))
	}
	for last := false; !last; {
		var size int64
		if size, last, err = w.block(most); err != nil {
			return err
		}
		if !h.HasFCS {
			w.total += size
		}
	}
	if h.HasCheckSum {
		w.at += 4
	}
	return nil
}

// block steps over a block (RFC 8878 §3.1.1.2) and returns the most that it unpacks to.
func (w *zstdWalk) block(most int64) (size int64, last bool, err error) {
	data, err := w.read(w.at, 3)
	if err != nil {
		return 0, false, err
	}
	if len(data) < 3 {
		return 0, false, errNotZstd
	}
	header := int64(data[0]) | int64(data[1])<<8 | int64(data[2])<<16
	size, last = header>>3, header&1 == 1
	w.at += 3
	switch header >> 1 & 3 {
	case 0: // as it is
		w.at += size
		return size, last, nil
	case 1: // one byte, repeated
		w.at++
		return size, last, nil
	case 2: // compressed
		w.at += size
		return most, last, nil
	}
	return 0, false, errNotZstd
}
