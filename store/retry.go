package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/aws/smithy-go"

	"github.com/sealift/sealift/internal/outage"
)

// Retry says how often and how patiently a transient failure is tried again. It is the only place that does so: the AWS
// client's own retries are off, so that attempts never multiply.
type Retry struct {
	Attempts int           // in all; 0 means 6, or with Within as many as there is time for
	Wait     time.Duration // before the second attempt, doubled before each further one; 0 means 300 ms
	Within   time.Duration // an attempt that fails later than this after the first began is the last; 0 means that none is too late
}

// maxWait bounds the pause between two attempts.
const maxWait = 10 * time.Second

// errStalled says that a transfer made no progress for too long.
var errStalled = errors.New("no progress for too long")

// statusError is an answer of a web server that carries no content.
type statusError struct {
	url  string // without a password
	code int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.url, e.code, http.StatusText(e.code))
}

// HTTPStatusCode is the status, as the errors of the AWS client tell it.
func (e *statusError) HTTPStatusCode() int { return e.code }

// do calls f until it succeeds, fails for good, has been called Attempts times or for too long, or ctx ends. Pauses vary by half, so that
// those who failed together do not come back together.
func (r Retry) do(ctx context.Context, f func() error) error {
	attempts, wait, begin := r.Attempts, r.Wait, time.Now()
	if attempts <= 0 && r.Within <= 0 {
		attempts = 6
	}
	if wait <= 0 {
		wait = 300 * time.Millisecond
	}
	for n := 1; ; n++ {
		err := f()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !transient(err):
			return err
		case n == attempts || r.Within > 0 && time.Since(begin) > r.Within:
			return fmt.Errorf("%w (tried %d times)", err, n)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, maxWait)
	}
}

// pause waits for about as long as asked.
func pause(ctx context.Context, about time.Duration) error {
	timer := time.NewTimer(about/2 + rand.N(about))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// transient says whether the same request may well succeed later: the connection broke or timed out, or the server said that
// it is busy or broken.
func transient(err error) bool {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "RequestTimeout", "InternalError", "SlowDown", "ServiceUnavailable", "ThrottlingException":
			return true
		}
	}
	if code := statusOf(err); code != 0 && code/100 != 2 {
		return outage.StatusPasses(code)
	}
	if errors.Is(err, errStalled) || outage.Passes(err) {
		return true
	}
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	if errors.As(err, &certificate) || errors.As(err, &dns) {
		return false
	}
	var send interface{ ConnectionError() bool } // what the AWS client says of a request that got no answer
	return errors.As(err, &send) && send.ConnectionError()
}

// statusOf is the status of the answer that an error is about, or 0.
func statusOf(err error) int {
	var answered interface{ HTTPStatusCode() int }
	if errors.As(err, &answered) {
		return answered.HTTPStatusCode()
	}
	return 0
}

// guard is a context that ends when nothing has moved for too long.
type guard struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

func newGuard(ctx context.Context, stall time.Duration) *guard {
	ctx, cancel := context.WithCancelCause(ctx)
	return &guard{
		Context: ctx, cancel: cancel, stall: stall,
		timer: time.AfterFunc(stall, func() { cancel(fmt.Errorf("%w (%s)", errStalled, stall)) }),
	}
}

func (g *guard) moved() { g.timer.Reset(g.stall) } // something moved, or is about to
func (g *guard) rest()  { g.timer.Stop() }         // nothing is expected to move

func (g *guard) end() {
	g.timer.Stop()
	g.cancel(nil)
}

// explain gives the reason why the context ended in place of an error that only says that it did.
func (g *guard) explain(err error) error {
	if cause := context.Cause(g.Context); err != nil && errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// newTransport returns a transport in which every phase of a request has a bound but the body, which guard bounds. Proxies
// come from the environment. Content is never decompressed behind the caller's back.
func newTransport(answer time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: answer,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   16,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	}
}
