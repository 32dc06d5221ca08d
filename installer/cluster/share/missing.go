package share

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

const (
	// maxDigests bounds a question. A bundle has some thousand files.
	maxDigests = 100_000
	// digestsPerDeadline is how many digests have bodyTime to arrive and be looked up.
	digestsPerDeadline = 1000
)

// missing answers with the requested digests that this node does not have. It looks each one up as it arrives.
func (s *Server) missing(w http.ResponseWriter, r *http.Request, _ client) error {
	control := http.NewResponseController(w)
	lacking, asked := []string{}, 0
	err := eachDigest(r.Body, func(digest string) error {
		switch asked++; {
		case asked > maxDigests:
			return &questionError{http.StatusRequestEntityTooLarge, fmt.Errorf("more than %d digests", maxDigests)}
		case asked%digestsPerDeadline == 0:
			_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // fails without a connection, in tests
		}
		has, err := s.has(r, digest)
		if err == nil && !has {
			lacking = append(lacking, digest)
		}
		return err
	})
	if wrong, ok := errors.AsType[*questionError](err); ok {
		w.Header().Set("Connection", "close") // the rest of the question is not read
		http.Error(w, "not a list of digests: "+wrong.Error(), wrong.status)
		return nil
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(lacking)
}

// has reports whether this node has a file of its bundle.
func (s *Server) has(r *http.Request, digest string) (bool, error) {
	if err := r.Context().Err(); err != nil {
		return false, err
	}
	blob, err := s.open(r.Context(), digest)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, blob.Close()
}

// questionError is a mistake in a list of digests.
type questionError struct {
	status int
	error
}

// eachDigest reads a list of digests in JSON. It holds one of them at a time, whatever a client sends.
func eachDigest(list io.Reader, do func(digest string) error) error {
	in := bufio.NewReader(list)
	for want := "["; ; want = ",]" {
		separator, err := expect(in, want)
		if err != nil || separator == ']' {
			return err
		}
		next, err := expect(in, map[bool]string{true: `"]`, false: `"`}[separator == '['])
		if err != nil || next == ']' {
			return err
		}
		digest, err := readDigest(in)
		if err != nil {
			return &questionError{http.StatusBadRequest, err}
		}
		if err := do(digest); err != nil {
			return err
		}
	}
}

// readDigest reads a sha256 in hex and the quote behind it.
func readDigest(in io.ByteReader) (string, error) {
	digest := make([]byte, 0, 2*sha256.Size)
	for {
		b, err := in.ReadByte()
		switch {
		case err != nil:
			return "", err
		case b == '"' && len(digest) == cap(digest):
			return string(digest), nil
		case len(digest) == cap(digest) || !strings.ContainsRune("0123456789abcdef", rune(b)):
			return "", fmt.Errorf("%q is not the beginning of a sha256 in hex", append(digest, b))
		}
		digest = append(digest, b)
	}
}

// maxSpace is how many bytes of space may stand between two values.
const maxSpace = 100

// expect reads the next byte that is not a space. It must be one of those that are wanted.
func expect(in io.ByteReader, wanted string) (byte, error) {
	for range maxSpace {
		b, err := in.ReadByte()
		if err != nil {
			return 0, &questionError{http.StatusBadRequest, err}
		}
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		}
		if strings.ContainsRune(wanted, rune(b)) {
			return b, nil
		}
		return 0, &questionError{http.StatusBadRequest, fmt.Errorf("found %q, want one of %q", b, wanted)}
	}
	return 0, &questionError{http.StatusBadRequest, fmt.Errorf("more than %d spaces", maxSpace)}
}
