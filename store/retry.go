package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go"

	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/internal/trust"
)

// Retry configures the retries of transient failures. Retries happen only here: the AWS client's own are off, so that
// attempts do not multiply.
type Retry struct {
	Attempts int           // in all; 0 means 6, or no limit if Within is set
	Wait     time.Duration // before the second attempt, on average; doubled before each further one; 0 means 300 ms
	Within   time.Duration // no retry after this time since the first attempt; 0 means no limit
}

// maxWait is the longest pause between two attempts.
const maxWait = 10 * time.Second

// errStalled reports that a transfer made no progress for too long.
var errStalled = errors.New("no progress for too long")

// statusError is an error response of a web server.
type statusError struct {
	url  string // without a password
	code int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.url, e.code, http.StatusText(e.code))
}

// HTTPStatusCode returns the status. The AWS client's errors have the same method.
func (e *statusError) HTTPStatusCode() int { return e.code }

// do calls f until it succeeds, fails permanently, runs out of attempts or time, or ctx ends.
func (r Retry) do(ctx context.Context, f func(context.Context) error) error {
	attempts, wait := r.Attempts, r.Wait
	if attempts <= 0 && r.Within <= 0 {
		attempts = 6
	}
	if wait <= 0 {
		wait = 300 * time.Millisecond
	}
	return transfer.Retry{First: 2 * wait, Longest: maxWait, Attempts: attempts, Within: r.Within, Transient: transient}.Do(ctx, f)
}

// transient reports whether a retry of the same request may succeed: the connection broke or timed out, or the server is
// busy or broken.
func transient(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "RequestTimeout", "InternalError", "SlowDown", "ServiceUnavailable", "ThrottlingException":
			return true
		}
	}
	if code := statusOf(err); code != 0 && code/100 != 2 {
		return outage.StatusPasses(code)
	}
	if errors.Is(err, errStalled) || errors.Is(err, transfer.ErrSlow) || outage.Passes(err) {
		return true
	}
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	if errors.As(err, &certificate) || errors.As(err, &dns) {
		return false
	}
	var send interface{ ConnectionError() bool } // the AWS client's error for a request without a response
	return errors.As(err, &send) && send.ConnectionError()
}

// statusOf returns the HTTP status in an error, or 0.
func statusOf(err error) int {
	var answered interface{ HTTPStatusCode() int }
	if errors.As(err, &answered) {
		return answered.HTTPStatusCode()
	}
	return 0
}

// guard is a context that ends when a transfer has made no progress for too long.
type guard struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
	most   atomic.Int64 // what the timer is set to
}

func newGuard(ctx context.Context, stall time.Duration) *guard {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{Context: ctx, cancel: cancel, stall: stall}
	g.most.Store(int64(stall))
	g.timer = time.AfterFunc(stall, func() { cancel(fmt.Errorf("%w (%s)", errStalled, time.Duration(g.most.Load()))) })
	return g
}

func (g *guard) moved() { g.wait(g.stall) }                // a byte moved, or is about to
func (g *guard) sent()  { g.wait(retryTimeout * g.stall) } // the server has everything, and works on it
func (g *guard) pause() { g.timer.Stop() }                 // nothing is expected to move

func (g *guard) wait(most time.Duration) {
	g.most.Store(int64(most))
	g.timer.Reset(most)
}

func (g *guard) end() {
	g.timer.Stop()
	g.cancel(nil)
}

// explain replaces an error that only reports the end of the context by the reason.
func (g *guard) explain(err error) error {
	if cause := context.Cause(g.Context); err != nil && errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// newTransport returns a transport that limits every phase of a request except the body, which guard watches. It uses the
// proxy settings of the environment and never decompresses content.
func newTransport(cas trust.CAs, answer time.Duration) http.RoundTripper {
	return transfer.NotingPauses(&http.Transport{
		TLSClientConfig:       cas.TLS(),
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: answer,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   16,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	})
}
