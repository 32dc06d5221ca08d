package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/server/airgap"
	"github.com/sealift/sealift/store"
)

// Problem is an error as a client gets it (RFC 9457), with what to change.
type Problem struct {
	Type   string `json:"type"` // always about:blank: the title says what kind it is
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Findings are the mistakes in a document that was sent, with their places.
	Findings []diag.Finding `json:"findings,omitempty"`
}

// problemType is the media type of a Problem.
const problemType = "application/problem+json"

// Error is the detail, as errors are told.
func (p *Problem) Error() string { return p.Detail }

func problem(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// asProblem tells a client what of an error is its business: what it can change. The rest is for the log.
func asProblem(err error) *Problem {
	var p *Problem
	var findings diag.Errors
	var large *http.MaxBytesError
	var unusable *airgap.UnusableError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d KiB are not read here; send less", large.Limit>>10))
	case errors.As(err, &findings):
		p = problem(http.StatusUnprocessableEntity, "the Installer has mistakes: "+findings.Error())
		p.Findings = findings
		return p
	case isUnknown(err):
		return problem(http.StatusUnprocessableEntity, err.Error())
	case errors.As(err, &unusable):
		return problem(http.StatusBadGateway, "whoever runs this server has to replace a package: "+unusable.Message)
	case errors.Is(err, store.ErrReadOnly):
		return problem(http.StatusForbidden, "the store of this server takes no Installers; put it there by other means")
	case errors.Is(err, fs.ErrNotExist):
		return problem(http.StatusNotFound, "there is nothing of that name; check the id, the name or the version")
	case errors.Is(err, store.ErrChanged):
		return problem(http.StatusServiceUnavailable, "a package was replaced at this moment; ask again")
	}
	return problem(http.StatusBadGateway, "the store does not answer as it should; ask again later, and see the server's log")
}

// isUnknown says whether all that went wrong is that the Installer asks for what is not there.
func isUnknown(err error) bool {
	var unknown *airgap.UnknownError
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

// writeProblem answers with an error.
func writeProblem(w http.ResponseWriter, p *Problem) {
	h := w.Header()
	for _, name := range []string{"ETag", "Content-Disposition", "Content-Length", "Last-Modified"} { // of what would have come
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	writeJSON(w, p.Status, problemType, p)
}

func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	text, err := encodeJSON(v)
	if err != nil { // what is encoded here always can be
		status, contentType = http.StatusInternalServerError, "text/plain"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone gets nothing
}

func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return text.Bytes(), err
}
