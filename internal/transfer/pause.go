package transfer

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// MaxPause is the longest time that a server can ask a client to wait before a retry.
const MaxPause = 2 * time.Minute

// Pause is how long servers ask clients to wait (Retry-After, RFC 9110 §10.2.3).
type Pause struct{ longest atomic.Int64 }

type pauseKey struct{}

// WithPause returns a context in which NotePause records the pauses that servers ask for.
func WithPause(ctx context.Context) (context.Context, *Pause) {
	p := new(Pause)
	return context.WithValue(ctx, pauseKey{}, p), p
}

// AtLeast returns the given pause, or the longer one that a server asked for: at most MaxPause.
func (p *Pause) AtLeast(pause time.Duration) time.Duration {
	return max(pause, time.Duration(p.longest.Load()))
}

// NotePause notes how long an answer asks the client to wait. Only a refusal counts.
func NotePause(ctx context.Context, answer *http.Response) {
	p, ok := ctx.Value(pauseKey{}).(*Pause)
	if !ok || answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode < http.StatusInternalServerError {
		return
	}
	wait := retryAfter(answer.Header.Get("Retry-After"), time.Now())
	for {
		known := p.longest.Load()
		if int64(wait) <= known || p.longest.CompareAndSwap(known, int64(wait)) {
			return
		}
	}
}

// retryAfter reads seconds or a date. Anything else means no pause.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, MaxPause)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxPause)
}

// NotingPauses returns a transport that records the pauses in the responses of next.
func NotingPauses(next http.RoundTripper) http.RoundTripper { return noting{next} }

type noting struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.next.RoundTrip(r)
	if err == nil {
		NotePause(r.Context(), answer)
	}
	return answer, err
}

// CloseIdleConnections implements an optional interface of http.Client.
func (n noting) CloseIdleConnections() {
	if next, ok := n.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// EscapePlus returns a URL whose path has %2B for each +. The two mean the same, but some servers, such as S3, read a + in a
// path as a space. Versions have one, as in 1.0.0+up4.5.
func EscapePlus(u *url.URL) *url.URL {
	escaped := *u
	if strings.Contains(u.EscapedPath(), "+") {
		escaped.RawPath = strings.ReplaceAll(u.EscapedPath(), "+", "%2B")
	}
	return &escaped
}
