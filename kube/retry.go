package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// requestTimeout ends a request whose connection went dead, so that there is time left to try again.
	requestTimeout = 30 * time.Second
	// The first and the longest pause between two tries.
	retryFirst   = 200 * time.Millisecond
	retryLongest = 2 * time.Second
	// lateKinds is how long a kind that nothing in the set promises may take to appear: discovery of a fresh control
	// plane lags by seconds, and a mistyped kind shall not cost minutes.
	lateKinds = 15 * time.Second
)

// retryable decides whether an error may pass by itself.
type retryable func(err error, since time.Duration) bool

// retry calls try until it succeeds, fails for good, or ctx ends. When the bound is reached the error is the last one
// that try gave, with how long it was tried; when the caller cancels, it is the cancellation, at once.
func (e *Engine) retry(ctx context.Context, what Ref, passing retryable, try func(context.Context) error) error {
	start := time.Now()
	pause := retryFirst
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			if !passing(err, time.Since(start)) {
				return err
			}
			last = err
			e.log.DebugContext(ctx, "trying again", "object", what.String(), "error", err)
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
		pause = min(2*pause, retryLongest)
	}
}

// gaveUp prefers what the server said to the fact that time ran out.
func gaveUp(ctx context.Context, last, err error, after time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	if last == nil {
		last = err
	}
	return fmt.Errorf("gave up after %s: %w", roundTime(after), last)
}

// roundTime shortens a duration to what a person reads.
func roundTime(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// transient recognises what a control plane says while it starts, restarts or is busy.
func transient(err error) bool {
	var netErr net.Error
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
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &netErr) && netErr.Timeout():
		return true
	}
	// net/http and its HTTP/2 have no type for a connection that went away under a request.
	text := err.Error()
	return strings.Contains(text, "http2: client connection lost") || strings.Contains(text, "server sent GOAWAY") ||
		strings.Contains(text, "http: server closed idle connection")
}

func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
