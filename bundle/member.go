package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/sealift/sealift/internal/compression"
)

const (
	blockSize      = 512   // of a tar
	maxStoredBlock = 65535 // payload of one stored deflate block (RFC 1951 §3.2.4)
	storedHeader   = 5     // bytes before each stored block
	gzipHeader     = 10    // without optional fields (RFC 1952 §2.3)
	gzipTrailer    = 8     // CRC-32 and size

	// compressionLevel compresses ELF binaries and YAML as well as gzip -6, and several times faster.
	compressionLevel = 7
)

// epoch is the modification time of every entry. GNU tar warns about time 0, so it is the earliest time that zip can store.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// endOfArchive ends the tar: two blocks of zeros in a separate gzip member.
var endOfArchive = func() []byte {
	var buf bytes.Buffer
	m := newMember(&buf)
	m.stored(make([]byte, 2*blockSize), true)
	m.close()
	return buf.Bytes()
}()

// memberStart is the header of every gzip member, without name, time and system.
var memberStart = [gzipHeader]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// storedOffset returns the offset in a stored member of byte p of its payload.
func storedOffset(p int64) int64 { return gzipHeader + (p/maxStoredBlock+1)*storedHeader + p }

// storedLength is the size of the gzip member of a stored file.
func storedLength(header, size int64) int64 {
	payload := header + size + padding(size)
	blocks := (payload + maxStoredBlock - 1) / maxStoredBlock
	return gzipHeader + blocks*storedHeader + payload + gzipTrailer
}

// deflatedLength is the size of the gzip member of a file whose content deflates to n bytes.
func deflatedLength(header, size, n int64) int64 {
	return gzipHeader + storedHeader + header + n + storedHeader + padding(size) + gzipTrailer
}

// padding returns the number of bytes that fill a tar entry's content to whole blocks.
func padding(size int64) int64 { return -size & (blockSize - 1) }

// tarHeader returns the tar header of an entry: one block, or more if a path or size needs PAX records.
func tarHeader(e Entry) ([]byte, error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: e.Path, Mode: int64(e.Mode), Size: e.Size, ModTime: epoch}
	if e.Encoding == Link {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, e.Link, 0
	}
	var buf bytes.Buffer
	if err := tar.NewWriter(&buf).WriteHeader(h); err != nil {
		return nil, fmt.Errorf("%s: tar header: %w", e.Path, err)
	}
	return buf.Bytes(), nil
}

// member writes one gzip member. close returns its first error.
type member struct {
	w   io.Writer
	crc hash.Hash32
	n   uint32 // inflated size modulo 2^32
	err error
	buf []byte // one stored block with its header, made when first needed
}

func newMember(w io.Writer) *member {
	m := &member{w: w, crc: crc32.NewIEEE()}
	m.raw(memberStart[:])
	return m
}

func (m *member) raw(p []byte) {
	if m.err == nil {
		_, m.err = m.w.Write(p)
	}
}

// count adds decompressed bytes to the checksums of the trailer.
func (m *member) count(p []byte) {
	_, _ = m.crc.Write(p)
	m.n += uint32(len(p))
}

// stored writes p, of at most 65,535 bytes, as one stored block.
func (m *member) stored(p []byte, final bool) {
	if m.buf == nil {
		m.buf = make([]byte, 0, storedHeader+maxStoredBlock)
	}
	header := storedBlock(len(p), final)
	block := m.buf[:storedHeader+len(p)]
	copy(block, header[:])
	copy(block[storedHeader:], p)
	m.count(p)
	m.raw(block)
}

// storedBlock returns the header of a stored block with n bytes.
func storedBlock(n int, final bool) (header [storedHeader]byte) {
	if final {
		header[0] = 1
	}
	binary.LittleEndian.PutUint16(header[1:], uint16(n))
	binary.LittleEndian.PutUint16(header[3:], ^uint16(n))
	return header
}

func (m *member) close() error {
	m.raw(gzipSums(m.crc.Sum32(), m.n))
	return m.err
}

// gzipSums returns the end of a member: CRC-32 and size modulo 2^32 of its payload.
func gzipSums(crc, n uint32) []byte {
	trailer := make([]byte, 0, gzipTrailer)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(trailer, crc), n)
}

// storeMember writes header, content and padding as stored blocks. Every block but the last is full.
func storeMember(w io.Writer, header []byte, content io.Reader, size int64) error {
	payload := io.MultiReader(bytes.NewReader(header), content, bytes.NewReader(make([]byte, padding(size))))
	left := int64(len(header)) + size + padding(size)
	m := newMember(w)
	chunk := make([]byte, maxStoredBlock)
	for left > 0 {
		n := min(left, maxStoredBlock)
		if _, err := io.ReadFull(payload, chunk[:n]); err != nil {
			return fmt.Errorf("content ends early: %w", err)
		}
		left -= n
		m.stored(chunk[:n], left == 0)
		if m.err != nil {
			return m.err
		}
	}
	return m.close()
}

// deflateMember writes the header as a stored block, the deflated content unchanged, and the padding as the final block. It
// writes the decompressed content to inflated, so that the caller can verify it.
func deflateMember(w io.Writer, header []byte, deflated io.Reader, size int64, inflated io.Writer) error {
	m := newMember(w)
	m.stored(header, false)
	tee := io.TeeReader(deflated, rawWriter{m})
	r := flate.NewReader(tee)
	defer r.Close()
	if n, err := io.CopyN(io.MultiWriter(inflated, countWriter{m}), r, size); err != nil {
		return fmt.Errorf("deflated form ends after %d of %d bytes: %w", n, size, err)
	}
	if _, err := io.Copy(io.Discard, tee); err != nil { // the flush marker after the last block
		return err
	}
	m.stored(make([]byte, padding(size)), true)
	return m.close()
}

type rawWriter struct{ *member }

func (w rawWriter) Write(p []byte) (int, error) { w.raw(p); return len(p), w.err }

type countWriter struct{ *member }

func (w countWriter) Write(p []byte) (int, error) { w.count(p); return len(p), nil }

// deflateContent compresses content. The output ends with a flush marker instead of a final block, so that more blocks can
// follow.
func deflateContent(w io.Writer, content io.Reader) error {
	fw, err := flate.NewWriter(w, compressionLevel)
	if err != nil {
		return err
	}
	if _, err := io.Copy(fw, content); err != nil {
		return err
	}
	return fw.Flush()
}

// compressedMagic are the first bytes of formats that deflate cannot shrink, beside gzip and zstd: xz, bzip2, zip, ar (.deb), RPM.
var compressedMagic = [][]byte{
	{0xfd, '7', 'z', 'X', 'Z', 0}, []byte("BZh"), []byte("PK\x03\x04"), []byte("!<arch>\n"), {0xed, 0xab, 0xee, 0xdb},
}

// isCompressed reports whether content that begins with head is already compressed.
func isCompressed(head []byte) bool {
	for _, magic := range compressedMagic {
		if bytes.HasPrefix(head, magic) {
			return true
		}
	}
	return compression.Of(head) != compression.None
}
