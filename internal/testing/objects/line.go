package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is a failure of one request. The zero value lets the request pass.
type Fault struct {
	Status int // answer this instead of the server, which does not see the request
	// CutRequest and CutAnswer, if not nil, close the connection after a number of content bytes.
	CutRequest, CutAnswer *int64
	Delay                 time.Duration // before the server hears of the request
}

// After is for the cuts of a Fault.
func After(bytes int64) *int64 { return &bytes }

// Line is a proxy in front of a server. It passes requests on, injects faults, and counts bytes.
type Line struct {
	Endpoint string // http://127.0.0.1:port

	end      chan struct{} // closed when the test ends
	mu       sync.Mutex
	plan     func(*http.Request) Fault
	sent     atomic.Int64
	received atomic.Int64
}

// Line starts a proxy in front of the server until the test ends.
func (s *Server) Line(t testing.TB) *Line {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{end: make(chan struct{})}
	// The Host header is not changed, because the request's signature covers it.
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		ModifyResponse: l.answer,
		ErrorLog:       log.New(io.Discard, "", 0),
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(forward, w, r) }))
	t.Cleanup(func() {
		close(l.end)
		front.CloseClientConnections()
		front.Close()
	})
	l.Endpoint = front.URL
	return l
}

// URL returns the bucket behind the proxy as a store URL, with further settings as name=value.
func (l *Line) URL(prefix string, settings ...string) string {
	return storeURL(l.Endpoint, prefix, settings)
}

// Plan sets the function that decides about each request from now on; nil lets all pass. The function may be called from
// several goroutines.
func (l *Line) Plan(plan func(*http.Request) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
}

// Sent returns the number of content bytes that clients have sent.
func (l *Line) Sent() int64 { return l.sent.Load() }

// Received returns the number of content bytes that clients have received.
func (l *Line) Received() int64 { return l.received.Load() }

type faultKey struct{}

func (l *Line) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	plan := l.plan
	l.mu.Unlock()
	var fault Fault
	if plan != nil {
		fault = plan(r)
	}
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-r.Context().Done(): // not noticed while content is left to read
			panic(http.ErrAbortHandler)
		case <-l.end:
			panic(http.ErrAbortHandler)
		}
	}
	if fault.Status != 0 {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(fault.Status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>the line says so</Message></Error>", map[int]string{
			http.StatusServiceUnavailable: "SlowDown", http.StatusNotImplemented: "NotImplemented",
		}[fault.Status])
		return
	}
	r.Body = &counted{ReadCloser: r.Body, count: &l.sent, cut: fault.CutRequest}
	forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), faultKey{}, fault)))
}

func (l *Line) answer(resp *http.Response) error {
	fault, _ := resp.Request.Context().Value(faultKey{}).(Fault)
	resp.Body = &counted{ReadCloser: resp.Body, count: &l.received, cut: fault.CutAnswer}
	return nil
}

var errCut = errors.New("the connection is cut")

// counted counts content bytes, and cuts the connection after some bytes if cut is not nil.
type counted struct {
	io.ReadCloser
	count *atomic.Int64
	cut   *int64
	n     int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.cut != nil {
		if c.n >= *c.cut {
			return 0, errCut
		}
		p = p[:min(int64(len(p)), *c.cut-c.n)]
	}
	n, err := c.ReadCloser.Read(p)
	c.n += int64(n)
	c.count.Add(int64(n))
	return n, err
}
