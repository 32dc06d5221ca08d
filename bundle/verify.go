package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// verifiedReader hashes the content while it is read and compares the digest at the end.
type verifiedReader struct {
	entry   Entry
	content content
	sum     hash.Hash
	left    int64
	err     error
}

func newVerifiedReader(e Entry, c content) *verifiedReader {
	return &verifiedReader{entry: e, content: c, sum: sha256.New(), left: e.Size}
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

// verdict reports whether the content and the frame of its member match the index.
func (v *verifiedReader) verdict() error {
	if got := hex.EncodeToString(v.sum.Sum(nil)); got != v.entry.SHA256 {
		return &DigestError{Path: v.entry.Path, Got: got, Want: v.entry.SHA256}
	}
	if err := v.content.finish(); err != nil {
		return fmt.Errorf("%s: %w", v.entry.Path, err)
	}
	return nil
}

func (v *verifiedReader) Close() error { return v.content.Close() }
