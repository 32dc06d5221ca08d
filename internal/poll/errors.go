package poll

import (
	"errors"
	"fmt"
	"time"
)

// EndedError reports that a context ended before Until was done.
type EndedError struct {
	// Cause is why the context ended.
	Cause error
	// Last is the error of the last try before that. It is nil when no try returned a reason.
	Last error
	// After is how long Until waited.
	After time.Duration

	canceled bool
}

// Error returns "gave up after 5m0s: LAST" when the time was over, and "LAST (CAUSE)" when the wait was canceled.
func (e *EndedError) Error() string {
	switch {
	case !e.canceled && e.Last == nil:
		return fmt.Sprintf("gave up after %s", RoundTime(e.After))
	case !e.canceled:
		return fmt.Sprintf("gave up after %s: %v", RoundTime(e.After), e.Last)
	case e.Last == nil:
		return e.Cause.Error()
	case errors.Is(e.Last, e.Cause):
		return e.Last.Error()
	}
	return fmt.Sprintf("%v (%v)", e.Last, e.Cause)
}

// Canceled reports whether the wait was canceled before its time was over.
func (e *EndedError) Canceled() bool { return e.canceled }

// Ended reports whether err is that of a wait whose context ended, and not the error of a try. A try that itself waits wraps the error of
// that wait, so that the two can be distinguished.
func Ended(err error) bool {
	_, ok := err.(*EndedError) //nolint:errorlint // a try may return the error of another wait
	return ok
}

// Unwrap returns Last, and the cause of a cancellation. The end of the time is left out: it would make any failed wait look like a
// request that timed out, which callers retry.
func (e *EndedError) Unwrap() (all []error) {
	if e.Last != nil {
		all = append(all, e.Last)
	}
	if e.canceled {
		all = append(all, e.Cause)
	}
	return all
}

// NotYet marks an error of a try as transient. Of nil it is nil.
func NotYet(err error) error { return NotBefore(0, err) }

// NotBefore marks an error as NotYet does. The next try comes after pause at the earliest, as a server has asked for (Retry-After, RFC
// 9110 §10.2.3).
func NotBefore(pause time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &notYetError{err, pause}
}

type notYetError struct {
	error
	least time.Duration
}

func (e *notYetError) Unwrap() error { return e.error }

// passing returns the mark of an error, or nil. The error of an ended wait has none, whatever its last error was.
func passing(err error) *notYetError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree of errors itself
	case *notYetError:
		return e
	case *EndedError:
		return nil
	case interface{ Unwrap() error }:
		return passing(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if mark := passing(inner); mark != nil {
				return mark
			}
		}
	}
	return nil
}

// Passes reports whether NotYet or NotBefore marks an error.
func Passes(err error) bool { return passing(err) != nil }

// unmarked drops the outermost mark of an error.
func unmarked(err error) error {
	if mark, ok := err.(*notYetError); ok { //nolint:errorlint // an inner mark is part of a wrapped error
		return mark.error
	}
	return err
}

// RoundTime rounds a duration for people.
func RoundTime(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
