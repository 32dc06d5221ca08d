package connlimit

import (
	"net/http"
	"sync"
	"time"
)

// Deadlines has the deadlines of one request, which end with it.
//
// net/http sets the deadline of a stream of HTTP/2 some time after it is asked to. If the stream has ended by then, the timer still runs
// to its end, and holds the stream with the data that its client sent. So a client that resets its streams, or breaks their rules, makes a
// server hold 64 KiB for each of them, for as long as the deadlines last. The timers of Deadlines end with the handler.
//
// http.ResponseController finds its methods in a ResponseWriter that embeds it.
type Deadlines struct {
	control *http.ResponseController
	stream  bool // of HTTP/2

	mu          sync.Mutex
	stopped     bool
	read, write *time.Timer // nil before the first deadline
}

// NewDeadlines returns the deadlines of a request. Call Stop before its handler returns.
func NewDeadlines(w http.ResponseWriter, r *http.Request) *Deadlines {
	return &Deadlines{control: http.NewResponseController(w), stream: r.ProtoMajor == 2}
}

// SetReadDeadline sets when reads of the request's body fail with os.ErrDeadlineExceeded. The zero time means never.
func (d *Deadlines) SetReadDeadline(at time.Time) error {
	return d.set(&d.read, at, d.control.SetReadDeadline)
}

// SetWriteDeadline sets when writes of the response fail with os.ErrDeadlineExceeded. The zero time means never.
func (d *Deadlines) SetWriteDeadline(at time.Time) error {
	return d.set(&d.write, at, d.control.SetWriteDeadline)
}

func (d *Deadlines) set(timer **time.Timer, at time.Time, pass func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := time.Until(at)
	switch {
	case d.stopped:
		return http.ErrHandlerTimeout
	case !d.stream || !at.IsZero() && wait <= 0: // net/http needs no timer for these
		return pass(at)
	case at.IsZero() && *timer != nil:
		(*timer).Stop()
	case at.IsZero():
	case *timer != nil:
		(*timer).Reset(wait)
	default:
		*timer = time.AfterFunc(wait, func() { d.pass(pass) })
	}
	return nil
}

// pass ends reads or writes now, unless the handler has returned: its ResponseWriter is gone then.
func (d *Deadlines) pass(set func(time.Time) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		_ = set(time.Now().Add(-time.Second)) // HTTP/2 streams have no connection of their own to wait for
	}
}

// Stop ends the timers. Those of a connection of HTTP/1 stay: net/http resets them for each request.
func (d *Deadlines) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	for _, t := range []*time.Timer{d.read, d.write} {
		if t != nil {
			t.Stop()
		}
	}
}
