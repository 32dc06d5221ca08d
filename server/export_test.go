package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/connlimit"
)

// Routes lists the routes as "METHOD /path".
func Routes() []string {
	var all []string
	for _, r := range (&Server{}).routes() {
		all = append(all, r.method+" "+r.pattern)
	}
	return all
}

// Turns lets tests take turns as requests do.
type Turns struct{ *slots }

// NewTurns makes turns with room for some bytes.
func NewTurns(room int64) Turns { return Turns{newTurns(room)} }

// Take waits for a turn.
func (t Turns) Take(ctx context.Context, client string, size int64) (done func(), err error) {
	return t.take(ctx, client, size)
}

// Waiting returns the number of waiting requests.
func (t Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, queue := range t.waiting {
		n += queue.Len()
	}
	return n
}

// The bounds of the server's work and memory.
const (
	MaxTexts   = maxTexts
	MaxWaiting = maxWaiting
	FreshFor   = freshFor
)

// Parsed is how many stored Installers were read as YAML.
func (s *Server) Parsed() (n int) {
	shown := httptest.NewRecorder()
	s.metrics.handler.ServeHTTP(shown, httptest.NewRequest("GET", "/metrics", nil))
	_, value, _ := strings.Cut(shown.Body.String(), "\nsealift_installers_parsed_total ")
	_, _ = fmt.Sscan(value, &n)
	return n
}

// Sweep removes values that were not used for the given time.
func (s *Server) Sweep(ctx context.Context, now time.Time) error { return s.sweep(ctx, now) }

// AnswerWithoutRoom returns the status of an answer of a size to a client that may hold no more.
func AnswerWithoutRoom(size int) int {
	w := httptest.NewRecorder()
	full := &observed{ResponseWriter: w, grow: func(int64) error { return connlimit.ErrFull }}
	writeJSON(full, http.StatusOK, "application/json", strings.Repeat("x", size))
	return w.Code
}

// Answer returns the status and the Retry-After of the answer to an error.
func Answer(err error) (status int, retryAfter string) {
	w := httptest.NewRecorder()
	writeProblem(w, asProblem(err))
	return w.Code, w.Header().Get("Retry-After")
}
