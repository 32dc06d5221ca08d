package server_test

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sealift/sealift/server"
)

// document holds the paths, methods and responses of /openapi.json.
type document struct {
	Paths      map[string]map[string]struct{ Responses map[string]response }
	Components struct{ Responses map[string]response }
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]json.RawMessage
}

var description = sync.OnceValues(func() (d document, err error) {
	text, err := os.ReadFile("openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	return d, err
})

// isDescribed compares an answer that a test got with the document: its status, and the type of its content. Pages for people are
// not described, nor are paths that do not exist.
func isDescribed(t *testing.T, r *http.Request, a answer) {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	method := strings.ToLower(r.Method)
	if r.Method == http.MethodHead {
		method = "get"
	}
	for _, template := range slices.SortedFunc(maps.Keys(d.Paths), moreWords) {
		operation, ok := d.Paths[template][method]
		if !ok || !matches(template, withoutRelease(r.URL.Path)) {
			continue
		}
		said, ok := operation.Responses[strconv.Itoa(a.StatusCode)]
		if !ok {
			t.Errorf("%s %s answers %s, and the description of %s does not say so", r.Method, r.URL.Path, a.Status, template)
			return
		}
		if name, ok := strings.CutPrefix(said.Ref, "#/components/responses/"); ok {
			said = d.Components.Responses[name]
		}
		kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
		if _, ok := said.Content[kind]; len(a.body) > 0 && len(said.Content) > 0 && (err != nil || !ok) {
			t.Errorf("%s %s answers %s with %q, and the description of %s says %v", r.Method, r.URL.Path, a.Status, kind, template, slices.Collect(maps.Keys(said.Content)))
		}
		return
	}
}

// moreWords puts paths with fewer parameters first.
func moreWords(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") }

func matches(template, path string) bool {
	words, parts := strings.Split(template, "/"), strings.Split(path, "/")
	if len(words) != len(parts) {
		return false
	}
	for i, word := range words {
		if parameter := strings.HasPrefix(word, "{"); word != parts[i] && (!parameter || parts[i] == "") {
			return false
		}
	}
	return !slices.Contains([]string{"compose", "packages", "page"}, parts[1])
}

// withoutRelease is the path of a request about a release, as in the document.
func withoutRelease(path string) string {
	prefix := ""
	if strings.HasPrefix(path, "/bundle/version/") {
		prefix, path = "/bundle", strings.TrimPrefix(path, "/bundle")
	}
	rest, ok := strings.CutPrefix(path, "/version/")
	if !ok {
		return prefix + path
	}
	_, below, _ := strings.Cut(rest, "/")
	return prefix + "/" + below
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	s := folder(t)
	var doc document
	if err := json.Unmarshal(ask(t, "GET", s.URL+"/openapi.json", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for path, methods := range doc.Paths {
		for method := range methods {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, route := range server.Routes() {
		if !described[route] {
			t.Errorf("%s is not described", route)
		}
		delete(described, route)
	}
	for route := range described {
		t.Errorf("%s is described, but not there", route)
	}
}
