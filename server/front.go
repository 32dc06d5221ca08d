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

	"github.com/sealift/sealift/store/release"
)

// ServeHTTP implements http.Handler: what every request goes through before it is looked at.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if s.options.URL != "" && strings.HasPrefix(s.options.URL, "https:") || r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // also for what nobody reads
	}
	if r.URL.Path != "/healthz" && !s.limits.allow(s.client(r), cost(r)) {
		h.Set("Retry-After", "1")
		s.metrics.refused.Inc()
		writeProblem(w, problem(http.StatusTooManyRequests, "too many requests from this address; wait a second"))
		return
	}
	clean := path.Clean(r.URL.Path)
	if r.URL.Path != clean && r.URL.Path != clean+"/" || strings.ContainsAny(r.URL.Path, "\\\x00") {
		writeProblem(w, problem(http.StatusBadRequest, "the path has empty parts, '.', '..' or characters that no name has; leave them out"))
		return
	}
	r, err := withRelease(r, clean)
	if err != nil {
		writeProblem(w, asProblem(err))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// cost is what a request counts against the limit of its client: more with a large body, and little for a range of a bundle.
func cost(r *http.Request) int {
	if size := r.ContentLength; size != 0 {
		if size < 0 || size > maxBody { // not told, or not read to its end
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

// withRelease takes the release out of /version/<release>/… and /bundle/version/<release>/…, which are asked for as without.
func withRelease(r *http.Request, clean string) (*http.Request, error) {
	prefix, rest := "/", ""
	switch {
	case strings.HasPrefix(clean, "/version/"):
		rest = strings.TrimPrefix(clean, "/version/")
	case strings.HasPrefix(clean, "/bundle/version/"):
		prefix, rest = "/bundle/", strings.TrimPrefix(clean, "/bundle/version/")
	}
	folder := ""
	if rest != "" {
		name, below, ok := strings.Cut(rest, "/")
		if !ok && prefix != "/" {
			return nil, problem(http.StatusNotFound, "after the release comes the id of an Installer")
		}
		var err error
		if folder, err = release.KURLFolder("dist", name); err != nil {
			return nil, problem(http.StatusBadRequest, err.Error())
		}
		clean = prefix + below
	}
	r = r.WithContext(context.WithValue(r.Context(), releaseKey{}, folder))
	u := *r.URL
	u.Path, u.RawPath = clean, ""
	r.URL = &u
	return r, nil
}

// folderOf is the folder of the release that is asked for; empty for that of the store itself.
func folderOf(r *http.Request) string {
	folder, _ := r.Context().Value(releaseKey{}).(string)
	return folder
}

// client is the address that a request comes from.
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

// handler measures and logs a route, and tells a client of its errors.
func (s *Server) handler(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		seen := &observed{ResponseWriter: w, buffers: s.buffers, control: http.NewResponseController(w), status: http.StatusOK}
		s.metrics.busy.Inc()
		defer func() {
			s.metrics.busy.Dec()
			s.metrics.observe(route, seen, time.Since(begin))
			s.tell(route, r, seen, time.Since(begin))
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
			panic(http.ErrAbortHandler) // the client has gone; or it only sends no more, and would take no answer for an empty one
		}
		p := asProblem(err)
		if p.Status >= http.StatusInternalServerError {
			s.log.Error("request failed", "path", r.URL.Path, "error", err)
		}
		writeProblem(seen, p)
	})
}

// handle lets a route answer. What was sent arrives before that; work on it, or on a page, waits for its turn, which ends when
// the answer begins: a client that takes its answer slowly holds up nobody.
func (s *Server) handle(route route, seen *observed, r *http.Request) error {
	size := int64(len(r.URL.RawQuery))
	if route.method != http.MethodGet {
		if err := s.crossOrigin.Check(r); err != nil {
			return problem(http.StatusForbidden, "a page of another site sent this; send it from here, or without a browser")
		}
		sent, err := s.receive(seen, r)
		if err != nil {
			return err
		}
		size += sent
	} else if !route.page {
		return route.handle(seen, r)
	}
	done, err := s.turns.take(r.Context(), rateKey(s.client(r)), size)
	if err != nil {
		return err
	}
	seen.begins = sync.OnceFunc(done)
	defer seen.begins()
	return route.handle(seen, r)
}

// statusGone is logged for a client that has gone before it was answered, as nginx does.
const statusGone = 499

type seenKey struct{}

// note remembers which Installer a request has stored.
func note(r *http.Request, id string) {
	if seen, ok := r.Context().Value(seenKey{}).(*observed); ok {
		seen.id = id
	}
}

// tell logs a request: those that may change something as audit lines.
func (s *Server) tell(route route, r *http.Request, seen *observed, took time.Duration) {
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

// observed is an answer of which status and size are remembered.
type observed struct {
	http.ResponseWriter
	control *http.ResponseController
	buffers *buffers
	status  int
	bytes   int64
	begun   bool // the header is written
	silent  bool // a problem was written in place of the answer
	aborted bool
	id      string // of the Installer that was stored
	begins  func() // called when the answer begins; nil for nothing to do
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

// conditionDetail is what to tell where net/http answers a range or a condition by itself.
func conditionDetail(status int) string {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		return "there are no such bytes; ask with HEAD how many there are"
	case http.StatusPreconditionFailed:
		return "it is not the one that the condition names any more; download it from its beginning"
	}
	return ""
}

// Write sends a piece, which has its time to be taken.
func (o *observed) Write(p []byte) (int, error) {
	if !o.begun && !o.silent {
		o.WriteHeader(http.StatusOK)
	}
	if o.silent { // the rest of an answer that a problem has taken the place of
		return len(p), nil
	}
	_ = o.control.SetWriteDeadline(time.Now().Add(stallTime)) // not possible in tests without a connection
	n, err := o.ResponseWriter.Write(p)
	o.bytes += int64(n)
	return n, err
}

// ReadFrom lets io.Copy take larger pieces than its own.
func (o *observed) ReadFrom(r io.Reader) (int64, error) {
	size := int64(largeBuffer)
	if limited, ok := r.(*io.LimitedReader); ok {
		size = limited.N
	}
	buffer, give := o.buffers.take(size)
	defer give()
	return io.CopyBuffer(struct{ io.Writer }{o}, r, buffer)
}

// Unwrap lets http.ResponseController reach the connection.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// notFound answers what no route is for: another method of the same path, or nothing.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
		writeProblem(w, problem(http.StatusNotFound, "there is nothing at this path; /openapi.json tells what is"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, problem(http.StatusMethodNotAllowed, fmt.Sprintf("%s is not possible here; possible: %s", r.Method, strings.Join(allowed, ", "))))
}
