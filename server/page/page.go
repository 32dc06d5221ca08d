// Package page shows a store to people: its packages, their content, and a form that composes an Installer. Every page
// works without JavaScript. A small script updates the form's result while people type.
//
// The package reads packages and asks its Source for plans. It stores nothing and does not know the server's other routes.
package page

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/assets"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store/release"
)

// Source provides the data of the pages. Its errors are shown to clients, so they must contain no secrets.
type Source interface {
	// List returns the packages of the release that the request names.
	List(r *http.Request) (release.Index, error)
	// Open opens a package. If it does not exist, the error wraps fs.ErrNotExist.
	Open(ctx context.Context, r *http.Request, name, version string) (Package, error)
	// Plan returns the bundle of an Installer, or an error that says why there is none.
	Plan(r *http.Request, i *spec.Installer) (Plan, error)
	// Create stores an Installer and returns its id.
	Create(r *http.Request, i *spec.Installer) (id string, err error)
	// Base returns the path prefix of the request's release, or "" for the store itself.
	Base(r *http.Request) string
	// Links returns the URLs of an Installer's script and bundle.
	Links(r *http.Request, id string) (script, bundle string, err error)
}

// Package is an open package. Call Close after use.
type Package struct {
	*bundle.Archive
	Close func() error
}

// Plan describes the bundle of an Installer.
type Plan struct {
	Installer *spec.Installer // with versions instead of patterns
	Size      int64           // of the bundle, bytes
}

// Site renders the pages.
type Site struct {
	source    Source
	metas     *metas
	templates *template.Template
	assets    assets.Set
}

// files are the templates and the files that they refer to.
//
//go:embed assets
var files embed.FS

// New makes a site.
func New(source Source) (*Site, error) {
	s := &Site{source: source, metas: newMetas()}
	var err error
	if s.assets, err = assets.Load(files, "assets", "style.css", "compose.js"); err != nil {
		return nil, err
	}
	s.templates, err = template.New("").Funcs(template.FuncMap{
		"asset": func(name string) string { return "/page/" + s.assets.Name(name) },
		"size":  plaintext.Bytes[int64],
		"short": func(digest string) string { return digest[:min(12, len(digest))] },
	}).ParseFS(files, "assets/*.html")
	return s, err
}

// Route is a page. Its handler returns errors before it has written anything.
type Route struct {
	Method, Pattern string
	Handle          func(http.ResponseWriter, *http.Request) error
	Creates         bool // whether it may store an Installer
}

// Routes returns all pages.
func (s *Site) Routes() []Route {
	return []Route{
		{"GET", "/{$}", s.packages, false},
		{"GET", "/packages/{name}/{version}", s.onePackage, false},
		{"GET", "/packages/{name}/{version}/sbom.spdx.json", s.materials, false},
		{"GET", "/compose", s.compose, false},
		{"POST", "/compose", s.create, true},
		{"GET", "/page/{file}", s.file, false},
	}
}

// policy lets a page load only this site's own files.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// view is the data of a template.
type view struct {
	Base, Title string
	Data        any
}

// show sends a page that has been rendered completely.
func (s *Site) show(w http.ResponseWriter, r *http.Request, name string, status int, title string, data any) error {
	var buf bytes.Buffer
	if err := s.templates.ExecuteTemplate(&buf, name, view{Base: s.source.Base(r), Title: title, Data: data}); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	if err := connlimit.Grow(r, int64(buf.Cap())); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the client may be gone
	return nil
}

// file sends a style sheet or a script. Clients may cache it forever, because its name changes with its content.
func (s *Site) file(w http.ResponseWriter, r *http.Request) error {
	if !s.assets.Serve(w, r, r.PathValue("file")) {
		http.NotFound(w, r)
	}
	return nil
}
