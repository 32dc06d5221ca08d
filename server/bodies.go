package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// maxBody is the most that is read of a request, in bytes. Installers have a few KiB.
	maxBody = 128 << 10
	// bodyShare is how many bytes of a body count as one more request.
	bodyShare = 8 << 10
)

// errLate says that what a client sends did not arrive in its time. The server waits for no more of it.
var errLate = problem(http.StatusRequestTimeout, fmt.Sprintf("what was sent did not arrive within %s; send it again", bodyTime))

// receive reads what was sent, before anything is made of it.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (size int64, err error) {
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close") // what comes is not read
		return 0, &http.MaxBytesError{Limit: maxBody}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return 0, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errLate
	case err != nil:
		return 0, problem(http.StatusBadRequest, "what was sent did not arrive whole; send it again")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // all is here; a turn may come later
	r.Body = io.NopCloser(bytes.NewReader(data))
	return int64(len(data)), nil
}
