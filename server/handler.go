package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/store/release"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if s.options.URL != "" && strings.HasPrefix(s.options.URL, "https:") || r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	s.bounded.ServeHTTP(w, r)
}

// serveBounded checks a request within the bounds before routing it.
func (s *Server) serveBounded(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // also for bodies that no handler reads
	}
	if !isHealthCheck(r) && !s.limits.allow(s.client(r), cost(r)) {
		h.Set("Retry-After", "1")
		s.metrics.refused.Inc()
		writeProblem(w, problem(http.StatusTooManyRequests, "too many requests from this address; wait a second"))
		return
	}
	clean := path.Clean(r.URL.Path)
	if r.URL.Path != clean && r.URL.Path != clean+"/" || strings.ContainsAny(r.URL.Path, "\\\x00") {
		writeProblem(w, problem(http.StatusBadRequest, "the path has empty parts, '.', '..' or characters that names cannot have; remove them"))
		return
	}
	r, err := withRelease(r, clean)
	if err != nil {
		writeProblem(w, asProblem(err))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// cost is the cost of a request against the client's rate limit: more for a large body, little for a range of a bundle.
func cost(r *http.Request) int {
	if size := r.ContentLength; size != 0 {
		if size < 0 || size > maxBody { // unknown, or refused after maxBody
			size = maxBody
		}
		return requestCost * (1 + int(size/bodyShare))
	}
	if r.Method == http.MethodGet && r.Header.Get("Range") != "" && strings.HasPrefix(r.URL.Path, "/bundle/") {
		return rangeCost
	}
	return requestCost
}

type releaseKey struct{}

// withRelease removes the release from /version/<release>/…, /bundle/version/<release>/… and /installer/version/<release>, and keeps it
// in the request's context.
func withRelease(r *http.Request, clean string) (*http.Request, error) {
	prefix, rest := "/", ""
	switch {
	case strings.HasPrefix(clean, "/version/"):
		rest = strings.TrimPrefix(clean, "/version/")
	case strings.HasPrefix(clean, "/bundle/version/"):
		prefix, rest = "/bundle/", strings.TrimPrefix(clean, "/bundle/version/")
	case strings.HasPrefix(clean, "/installer/version/"):
		prefix, rest = "/installer/", strings.TrimPrefix(clean, "/installer/version/")
	}
	folder := ""
	if rest != "" {
		name, below, ok := strings.Cut(rest, "/")
		if !ok && prefix == "/bundle/" {
			return nil, problem(http.StatusNotFound, "the path needs the id of an Installer after the release")
		}
		var err error
		if folder, err = release.KURLFolder("dist", name); err != nil {
			return nil, problem(http.StatusBadRequest, err.Error())
		}
		clean = path.Clean(prefix + below)
	}
	r = r.WithContext(context.WithValue(r.Context(), releaseKey{}, folder))
	u := *r.URL
	u.Path, u.RawPath = clean, ""
	r.URL = &u
	return r, nil
}

// folderOf returns the folder of the requested release, or "" for the store itself.
func folderOf(r *http.Request) string {
	folder, _ := r.Context().Value(releaseKey{}).(string)
	return folder
}

// client returns the address of the client.
func (s *Server) client(r *http.Request) string {
	if s.options.BehindProxy {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if last := strings.TrimSpace(hops[len(hops)-1]); net.ParseIP(last) != nil {
			return last
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// handler measures and logs a route, and sends its errors as responses.
func (s *Server) handler(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		seen := &observed{ResponseWriter: w, buffers: s.buffers, status: http.StatusOK}
		seen.grow = func(bytes int64) error { return connlimit.Grow(r, bytes) }
		s.metrics.busy.Inc()
		defer func() {
			s.metrics.busy.Dec()
			s.metrics.observe(route, seen, time.Since(begin))
			s.logRequest(route, r, seen, time.Since(begin))
		}()
		err := s.handle(route, seen, r.WithContext(context.WithValue(r.Context(), seenKey{}, seen)))
		if err == nil {
			return
		}
		if errors.Is(err, errLate) {
			seen.Header().Set("Connection", "close")
		} else if r.Context().Err() != nil {
			if !seen.begun {
				seen.status = statusGone
			}
			panic(http.ErrAbortHandler) // the client has disconnected, or must not take the missing response for an empty one
		}
		p := asProblem(err)
		if p.Status >= http.StatusInternalServerError {
			s.log.Error("request failed", "path", r.URL.Path, "error", err)
		}
		writeProblem(seen, p)
	})
}

// handle calls the route's handler. The body is received before that. Parsing and pages wait for a slot, which is released when
// the response begins, so that a slow client blocks nobody.
func (s *Server) handle(route route, seen *observed, r *http.Request) error {
	size := int64(len(r.URL.RawQuery))
	if route.method != http.MethodGet {
		if err := s.crossOrigin.Check(r); err != nil {
			return problem(http.StatusForbidden, "another site's page sent this request; send it from this site, or without a browser")
		}
		sent, err := s.receive(seen, r)
		if err != nil {
			return err
		}
		size += sent
	} else if !route.page {
		return route.handle(seen, r)
	}
	done, err := s.slots.take(r.Context(), connlimit.Key(s.client(r)), size)
	if err != nil {
		return err
	}
	seen.begins = sync.OnceFunc(done)
	defer seen.begins()
	return route.handle(seen, r)
}

// statusGone is logged if the client disconnects before the response, as in nginx.
const statusGone = 499

type seenKey struct{}

// note records the Installer that a request has stored, for the log.
func note(r *http.Request, id string) {
	if seen, ok := r.Context().Value(seenKey{}).(*observed); ok {
		seen.id = id
	}
}

// logRequest logs a request. Requests that may change something become audit lines.
func (s *Server) logRequest(route route, r *http.Request, seen *observed, took time.Duration) {
	words := []any{"method", r.Method, "path", r.URL.Path, "status", seen.status, "client", s.client(r), "bytes", seen.bytes, "took", took.Round(time.Millisecond)}
	if folder := folderOf(r); folder != "" {
		words = append(words, "release", path.Base(folder))
	}
	if route.audited {
		s.log.Info("audit", append(words, "installer", seen.id, "token", s.access(r))...)
		return
	}
	s.log.Debug("request", words...)
}

// observed is a ResponseWriter that records status and size.
type observed struct {
	http.ResponseWriter
	buffers *buffers
	status  int
	bytes   int64
	begun   bool // the header has been written
	silent  bool // a problem replaced the response
	aborted bool
	id      string // id of the stored Installer
	begins  func() // called when the response begins; may be nil
	// grow counts the bytes of an answer, with connlimit.Grow.
	grow func(bytes int64) error
}

func (o *observed) WriteHeader(status int) {
	if o.begins != nil {
		o.begins()
	}
	if o.begun {
		return
	}
	if detail := conditionDetail(status); detail != "" && o.Header().Get("Content-Type") != problemType {
		writeProblem(o, problem(status, detail))
		o.silent = true
		return
	}
	o.status, o.begun = status, true
	o.ResponseWriter.WriteHeader(status)
}

// conditionDetail explains the statuses that net/http itself sends for ranges and conditions.
func conditionDetail(status int) string {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		return "the range is outside the content; HEAD returns the length"
	case http.StatusPreconditionFailed:
		return "the content has changed since the version in the condition; download it from the beginning"
	}
	return ""
}

// Write sends a chunk of the response.
func (o *observed) Write(p []byte) (int, error) {
	if !o.begun && !o.silent {
		o.WriteHeader(http.StatusOK)
	}
	if o.silent { // the rest of a replaced response
		return len(p), nil
	}
	n, err := o.ResponseWriter.Write(p)
	o.bytes += int64(n)
	return n, err
}

// ReadFrom lets io.Copy use larger chunks.
func (o *observed) ReadFrom(r io.Reader) (int64, error) {
	size := int64(largeBuffer)
	if limited, ok := r.(*io.LimitedReader); ok {
		size = limited.N
	}
	buffer, give := o.buffers.take(size)
	defer give()
	return io.CopyBuffer(struct{ io.Writer }{o}, r, buffer)
}

// Unwrap gives http.ResponseController access to the connection.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// notFound answers requests without a route: the path does not exist, or has another method.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = slices.Insert(allowed, 1, http.MethodHead) // GET is always first
	}
	if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
		writeProblem(w, problem(http.StatusNotFound, "there is nothing at this path; /openapi.json lists the paths"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, problem(http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not allowed here; allowed: %s", r.Method, strings.Join(allowed, ", "))))
}
