// Package page shows a store to people: which packages it has, what is in them, and a form that composes an Installer out of
// them. Every page is whole without JavaScript; a little of it keeps the form's result up to date while one types.
//
// The package reads packages and asks its owner for plans. It stores nothing and knows nothing of HTTP's other routes.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store/release"
)

// Source is what the pages tell of. Its errors are shown to whoever asked, so that they must hold nothing secret.
type Source interface {
	// List gives the packages of the release that a request is about.
	List(r *http.Request) (release.Index, error)
	// Open opens one of them; an error that wraps fs.ErrNotExist says that it is not there.
	Open(ctx context.Context, r *http.Request, name, version string) (Package, error)
	// Plan gives the bundle that an Installer makes, or says why it makes none.
	Plan(r *http.Request, i *spec.Installer) (Plan, error)
	// Create stores an Installer and gives its id.
	Create(r *http.Request, i *spec.Installer) (id string, err error)
	// Base is the beginning of the paths of a request's release; empty for the store's own.
	Base(r *http.Request) string
	// Links gives the URLs of an Installer: its script and its bundle.
	Links(r *http.Request, id string) (script, bundle string, err error)
}

// Package is an open package. Close must be called.
type Package struct {
	*bundle.Archive
	Close func() error
}

// Plan is a bundle as it would be.
type Plan struct {
	Installer *spec.Installer // with versions in place of patterns
	Size      int64           // of the bundle, bytes
}

// Site makes pages.
type Site struct {
	source    Source
	metas     *metas
	templates *template.Template
	assets    map[string]asset
}

// asset is a file that pages refer to, under a name that changes with its bytes.
type asset struct {
	kind string // media type
	data []byte
}

// files are the templates and what they refer to.
//
//go:embed assets
var files embed.FS

// New makes a site.
func New(source Source) (*Site, error) {
	s := &Site{source: source, metas: newMetas(), assets: map[string]asset{}}
	names := map[string]string{}
	for name, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "compose.js": "text/javascript; charset=utf-8"} {
		data, err := files.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		names[name] = hex.EncodeToString(sum[:6]) + path.Ext(name)
		s.assets[names[name]] = asset{kind, data}
	}
	var err error
	s.templates, err = template.New("").Funcs(template.FuncMap{
		"asset": func(name string) string { return "/page/" + names[name] },
		"size":  Size,
		"short": func(digest string) string { return digest[:min(12, len(digest))] },
	}).ParseFS(files, "assets/*.html")
	return s, err
}

// Route is a page. Its handler tells of what went wrong before it has answered anything.
type Route struct {
	Method, Pattern string
	Handle          func(http.ResponseWriter, *http.Request) error
	Creates         bool // whether it may store an Installer
}

// Routes are all pages.
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

// policy lets a page load what is its own, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// view is what a template shows.
type view struct {
	Base, Title string
	Data        any
}

// show answers with a page that has been made whole before.
func (s *Site) show(w http.ResponseWriter, r *http.Request, name string, status int, title string, data any) error {
	var buf bytes.Buffer
	if err := s.templates.ExecuteTemplate(&buf, name, view{Base: s.source.Base(r), Title: title, Data: data}); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a reader who has gone gets nothing
	return nil
}

// file answers with a style or a script; its name changes with it, so that it may be kept for ever.
func (s *Site) file(w http.ResponseWriter, r *http.Request) error {
	a, ok := s.assets[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return nil
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.data))
	return nil
}

// Size is a number of bytes as people read it: 1.5 GB, by powers of ten, as disks are sold.
func Size(bytes int64) string {
	units := []string{"kB", "MB", "GB", "TB"}
	value, unit := float64(bytes), "B"
	for n := 0; value >= 999.5 && n < len(units); n++ {
		value, unit = value/1000, units[n]
	}
	if unit == "B" || value >= 99.95 {
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
