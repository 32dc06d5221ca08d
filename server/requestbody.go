package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// maxBody is the maximum size of a request body, in bytes. Installers have a few KiB.
	maxBody = 128 << 10
	// bodyShare is the number of body bytes that count as one more request.
	bodyShare = 8 << 10
)

// errLate reports that a request body did not arrive within bodyTime.
var errLate = problem(http.StatusRequestTimeout, fmt.Sprintf("the request body did not arrive within %s; send it again", bodyTime))

// receive reads the whole request body before the handler parses it.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (size int64, err error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return 0, problem(http.StatusUnsupportedMediaType, fmt.Sprintf("the request body is encoded as %q, which this server does not read; send it without Content-Encoding", coding))
	}
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		return 0, &http.MaxBytesError{Limit: maxBody}
	}
	data, err := readBody(http.MaxBytesReader(w, r.Body, maxBody), r.ContentLength)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return 0, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errLate
	case err != nil:
		return 0, problem(http.StatusBadRequest, "the request body was incomplete; send it again")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body is complete; waiting for a slot does not use up its time
	r.Body = io.NopCloser(bytes.NewReader(data))
	return int64(len(data)), nil
}

// readBody reads a body of a size, or of any size if that is negative. It holds no more than the body of a known size.
func readBody(body io.Reader, size int64) ([]byte, error) {
	if size < 0 {
		return io.ReadAll(body)
	}
	data := make([]byte, size)
	_, err := io.ReadFull(body, data)
	return data, err
}
