package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/poll"
)

const (
	// requestTimeout ends a request whose connection is dead, so that time is left for a retry.
	requestTimeout = 30 * time.Second
	// The first and the longest bound of the pauses between two tries.
	retryFirst   = 400 * time.Millisecond
	retryLongest = 4 * time.Second
	// longestRetryAfter bounds the pause that a server may request.
	longestRetryAfter = time.Minute
	// lateKinds is how long a kind that nothing in the set promises may take to appear: discovery of a fresh control
	// plane lags by seconds, and a mistyped kind shall not cost minutes.
	lateKinds = 15 * time.Second
)

// retryable decides whether an error may be transient.
type retryable func(err error, since time.Duration) bool

// retry calls try until it succeeds, fails for good, or ctx ends. At the timeout, the error is the last one of try, with how
// long it was tried; when the caller cancels, it is the cancellation, at once.
func (c *Cluster) retry(ctx context.Context, what Ref, passing retryable, try func(context.Context) error) error {
	start := time.Now()
	pauses := poll.Backoff{First: retryFirst, Longest: retryLongest}
	return ended(pauses.Until(ctx, nil, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err == nil || !passing(err, time.Since(start)) {
			return err == nil, err
		}
		c.log.DebugContext(ctx, "trying again", "object", what.String(), "error", err)
		return false, poll.NotBefore(retryAfter(err), err)
	}))
}

// retryAfter is how long an API server asks clients to wait; longestRetryAfter at most.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, longestRetryAfter)
}

// Retry calls try until it succeeds or fails for good. It retries, until ctx ends, the errors of a control plane that starts,
// restarts or is busy; an error that depends on others (Awaits) fails at once.
func (c *Cluster) Retry(ctx context.Context, what Ref, try func(context.Context) error) error {
	return c.retry(ctx, what, passes(nil, nil, true), try)
}

// NoKind reports whether an error has a missing kind as its only cause, and not a webhook or a server as well.
func NoKind(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok { // walk the tree of errors itself
		return !slices.ContainsFunc(several.Unwrap(), func(e error) bool { return Awaits(e) && !NoKind(e) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return NoKind(inner)
	}
	return !Awaits(err) || errors.As(err, new(*noKindError))
}

// Awaits reports whether an error may go away when another set is applied: a webhook that does not answer yet, a kind that the
// cluster does not serve yet, or a missing server of an API extension.
func Awaits(err error) bool {
	var missing *noKindError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &missing):
		return true
	case !errors.As(err, &status):
		return false
	case status.Status().Code == http.StatusInternalServerError:
		text := status.Status().Message
		return strings.Contains(text, "failed calling webhook") || strings.Contains(text, "conversion webhook for")
	case status.Status().Code == http.StatusServiceUnavailable && status.Status().Details != nil:
		for _, cause := range status.Status().Details.Causes { // in the words of the aggregator
			if strings.HasPrefix(cause.Message, "service unavailable") || strings.HasPrefix(cause.Message, "error trying to reach service") {
				return true
			}
		}
	}
	return false
}

// Transient reports whether an error may be transient: a control plane returns it while it starts, restarts or is busy.
func Transient(err error) bool {
	switch {
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return true
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return true // someone else wrote between our read and our write; a conflict of managers is a ConflictError
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return true
	case apierrors.IsForbidden(err):
		// Right after a namespace was made, its service account is not there yet.
		return strings.Contains(err.Error(), "error looking up service account")
	case apierrors.IsInternalError(err), apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && isStatus(err):
		text := err.Error()
		return strings.Contains(text, "failed calling webhook") || strings.Contains(text, "etcdserver:") ||
			strings.Contains(text, "EOF") || strings.Contains(text, "connection refused")
	case outage.Passes(err), errors.Is(err, syscall.ENETUNREACH):
		return true
	}
	// net/http and its HTTP/2 have no type for a connection that was lost during a request.
	text := err.Error()
	return strings.Contains(text, "http2: client connection lost") || strings.Contains(text, "server sent GOAWAY") ||
		strings.Contains(text, "http: server closed idle connection")
}

func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
