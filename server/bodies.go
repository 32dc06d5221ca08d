package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
)

const (
	// maxBody is the most that is read of a request, in bytes. Installers have a few KiB.
	maxBody = 128 << 10
	// maxTexts is how many bytes of Installers and forms are worked on at a time, one of the largest or many as they mostly
	// are: what is made of one may take some hundred times its size in memory.
	maxTexts = maxBody
	// bodyShare is how many bytes of a body count as one more request.
	bodyShare = 8 << 10
)

// receive reads what was sent before anything is made of it, and waits for the turn of that, which ends with done.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (done func(), err error) {
	if r.ContentLength > maxBody {
		w.Header().Set("Connection", "close") // what comes is not read
		return nil, &http.MaxBytesError{Limit: maxBody}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, err
	case err != nil:
		return nil, problem(http.StatusBadRequest, "what was sent did not arrive whole; send it again")
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return s.work(r.Context(), int64(len(data)))
}

// work waits until there is room for work on a text of some size.
func (s *Server) work(ctx context.Context, size int64) (done func(), err error) {
	size = min(size, maxTexts)
	if err := s.texts.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { s.texts.Release(size) }, nil
}
