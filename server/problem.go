package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// Problem is the error response for a client (RFC 9457). It says what to change.
type Problem struct {
	Type   string `json:"type"` // always about:blank: the title is the text of the status
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Findings are the mistakes in the sent document, with their positions.
	Findings []diag.Finding `json:"findings,omitempty"`

	retryAfter int // seconds after which the same request may succeed; 0 if that is unknown
}

// problemType is the media type of a Problem.
const problemType = "application/problem+json"

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

func problem(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// asProblem returns the part of an error that the client can act on. The rest goes only to the log.
func asProblem(err error) *Problem {
	var p *Problem
	var findings diag.Errors
	var large *http.MaxBytesError
	var unusable *packages.UnusableError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the request body is larger than %d KiB; send less", large.Limit>>10))
	case errors.As(err, &findings):
		detail := "the Installer has mistakes: " + findings.Error()
		if _, ok := errors.AsType[*spec.UnreadableError](err); !ok {
			detail += "\n'sealift spec upgrade FILE' writes the nearest one that works"
		}
		p = problem(http.StatusUnprocessableEntity, detail)
		p.Findings = findings
		return p
	case isUnknown(err):
		return problem(http.StatusUnprocessableEntity, err.Error())
	case errors.As(err, &unusable):
		return problem(http.StatusBadGateway, "the operator of this server must replace a package: "+unusable.Message)
	case errors.Is(err, connlimit.ErrFull):
		return problem(http.StatusTooManyRequests, err.Error()+"; wait until some end")
	case errors.Is(err, lean.ErrBusy):
		return compressing()
	case errors.Is(err, delta.ErrBusy):
		return patching()
	case errors.Is(err, store.ErrReadOnly):
		return problem(http.StatusForbidden, "the store of this server is read-only; put the Installer there by other means")
	case errors.Is(err, fs.ErrNotExist):
		return problem(http.StatusNotFound, "there is nothing with that name; check the id, the name or the version")
	case errors.Is(err, store.ErrChanged):
		return problem(http.StatusServiceUnavailable, "a package was replaced during the request; send it again")
	}
	return problem(http.StatusBadGateway, "the store failed; try again later, and see the server's log")
}

// isUnknown reports whether every part of an error is an UnknownError.
func isUnknown(err error) bool {
	var unknown *packages.UnknownError
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			if !isUnknown(one) {
				return false
			}
		}
		return len(many.Unwrap()) > 0
	}
	return errors.As(err, &unknown)
}

// writeProblem sends an error response.
func writeProblem(w http.ResponseWriter, p *Problem) {
	h := w.Header()
	for _, name := range []string{"ETag", "Content-Disposition", "Content-Length", "Last-Modified"} { // headers of the replaced response
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer") // RFC 9110 §11.6.1
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	writeJSON(w, p.Status, problemType, p)
}

// writeJSON sends an answer. A large one counts as held by the client until it is sent.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	text, err := encodeJSON(v)
	if err != nil { // a Problem can always be encoded
		status, contentType = http.StatusInternalServerError, "text/plain"
	}
	if o, ok := w.(*observed); ok && len(text) > smallBuffer && o.grow(int64(cap(text))) != nil {
		full := asProblem(connlimit.ErrFull)
		w.Header().Set("Retry-After", "1")
		status, contentType = full.Status, problemType
		text, _ = encodeJSON(full) // as above
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
}

func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return text.Bytes(), err
}
