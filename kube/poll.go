package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusalTime is how long an API server may refuse what it will allow: until it has read the roles, and the CAs of its clients.
const refusalTime = 2 * time.Minute

// Poll calls ask every pause until it succeeds. An error that does not pass by itself ends the wait at once. When ctx reaches its
// deadline, the error has the last error of ask, and how long it was tried. When ctx is canceled, it is the cause.
//
// These errors pass: Transient ones, those that NotYet marks, and, for the first two minutes, that an API server refuses its client or
// does not know a kind.
func Poll(ctx context.Context, pause time.Duration, ask func(context.Context) error) error {
	start := time.Now()
	var last error
	var refused time.Time // since when
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			switch {
			case !refusal(err):
				refused = time.Time{}
			case refused.IsZero():
				refused = time.Now()
			}
			if !passesPoll(err, refused) {
				return err
			}
			last = err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		if ctx.Err() != nil {
			return gaveUp(ctx, last, err, time.Since(start))
		}
	}
}

func passesPoll(err error, refused time.Time) bool {
	if !refused.IsZero() {
		return time.Since(refused) < refusalTime
	}
	return errors.As(err, new(*notYetError)) || Transient(err)
}

// refusal reports whether an error may be one of an API server that has not read everything yet.
func refusal(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || errors.As(err, new(*noKindError)) ||
		errors.As(err, new(*tls.CertificateVerificationError))) && !Transient(err)
}

// notYetError says that what is waited for is not there yet.
type notYetError struct{ err error }

func (e *notYetError) Error() string { return e.err.Error() }
func (e *notYetError) Unwrap() error { return e.err }

// NotYet marks an error for Poll as one that passes: the request succeeded, but what is waited for is not there yet. Of nil it is nil.
func NotYet(err error) error {
	if err == nil {
		return nil
	}
	return &notYetError{err}
}
