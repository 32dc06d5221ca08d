package kurl

import (
	"errors"
	"fmt"
	"io"
)

// archiveError is a fault of an archive: every attempt to import these bytes ends with it. Faults of disks and networks are others.
type archiveError struct{ error }

// Unwrap returns the cause.
func (e *archiveError) Unwrap() error { return e.error }

func faultf(format string, args ...any) error { return &archiveError{fmt.Errorf(format, args...)} }

// source is where an archive is read from. It remembers its own faults: what they end looks like a damaged archive.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// blame makes an error of reading the archive a fault of it, unless its source is to blame.
func (s *source) blame(err error) error {
	if err == nil || s.err != nil {
		return err
	}
	return &archiveError{err}
}

// content is that of an entry.
type content struct {
	r    io.Reader
	from *source
}

func (c content) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, c.from.blame(err)
}
