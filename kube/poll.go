package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sealift/sealift/internal/poll"
)

// refusalTime is how long an API server may refuse what it will allow: until it has read the roles, and the CAs of its clients.
const refusalTime = 2 * time.Minute

// Poll calls ask every pause until it succeeds, as poll.Until does. A permanent error ends the wait at once. When ctx reaches its
// deadline, the error has the last error of ask, and how long it was tried. When ctx is canceled, it is the cause.
//
// These errors pass: Transient ones, those that NotYet marks, and, for the first two minutes, that an API server refuses its client or
// does not know a kind.
func Poll(ctx context.Context, pause time.Duration, ask func(context.Context) error) error {
	var refused time.Time // since when
	return ended(poll.Until(ctx, pause, nil, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		switch {
		case err == nil:
			return true, nil
		case !refusal(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		}
		if passesPoll(err, refused) {
			err = poll.NotBefore(retryAfter(err), err)
		}
		return false, err
	}))
}

// ended returns only the cause of a canceled wait.
func ended(err error) error {
	if end, ok := err.(*poll.EndedError); ok && end.Canceled() { //nolint:errorlint // that of a wait inside this one says more
		return end.Cause
	}
	return err
}

func passesPoll(err error, refused time.Time) bool {
	if !refused.IsZero() {
		return time.Since(refused) < refusalTime
	}
	return poll.Passes(err) || Transient(err)
}

// refusal reports whether an error may be one of an API server that has not read everything yet.
func refusal(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || errors.As(err, new(*noKindError)) ||
		errors.As(err, new(*tls.CertificateVerificationError))) && !Transient(err)
}

// NotYet marks an error for Poll as transient: the request succeeded, but the awaited state is not reached yet. Of nil it is nil.
func NotYet(err error) error { return poll.NotYet(err) }
