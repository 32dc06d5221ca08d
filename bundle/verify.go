package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// verifiedReader hashes what passes and compares at the end.
type verifiedReader struct {
	archive *Archive
	entry   Entry
	content io.ReadCloser
	sum     hash.Hash
	crc     uint32 // of what the member inflates to, so far
	left    int64
	err     error
}

func newVerifiedReader(a *Archive, e Entry, content io.ReadCloser) *verifiedReader {
	v := &verifiedReader{archive: a, entry: e, content: content, sum: sha256.New(), left: e.Size}
	var header []byte
	header, _, v.err = frame(a.bearer(e))
	v.crc = crc32.ChecksumIEEE(header)
	return v
}

func (v *verifiedReader) Read(p []byte) (int, error) {
	if v.err == nil && v.left == 0 {
		if v.err = v.verdict(); v.err == nil {
			v.err = io.EOF
		}
	}
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.content.Read(p[:min(int64(len(p)), v.left)])
	v.sum.Write(p[:n])
	v.crc = crc32.Update(v.crc, crc32.IEEETable, p[:n])
	v.left -= int64(n)
	switch {
	case err == nil || v.left == 0:
		return n, nil
	case errors.Is(err, io.EOF):
		v.err = fmt.Errorf("%s: ends %d bytes early: %w", v.entry.Path, v.left, io.ErrUnexpectedEOF)
	default:
		v.err = fmt.Errorf("%s: %w", v.entry.Path, err)
	}
	return n, v.err
}

// verdict says whether the content that passed, and what its member has around it, are what the index says.
func (v *verifiedReader) verdict() error {
	if got := hex.EncodeToString(v.sum.Sum(nil)); got != v.entry.SHA256 {
		return &DigestError{Path: v.entry.Path, Got: got, Want: v.entry.SHA256}
	}
	bearer := v.archive.bearer(v.entry)
	crc := crc32.Update(v.crc, crc32.IEEETable, make([]byte, padding(bearer.Size)))
	err := v.archive.checkFrame(bearer, v.content, crc)
	if v.entry.Encoding == Link && err == nil {
		err = v.archive.checkLink(v.entry)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", v.entry.Path, err)
	}
	return nil
}

// checkLink holds the member of a link against the index.
func (a *Archive) checkLink(e Entry) error {
	header, _, err := frame(e)
	if err != nil {
		return err
	}
	return a.checkFrame(e, nil, crc32.ChecksumIEEE(header))
}

func (v *verifiedReader) Close() error { return v.content.Close() }
