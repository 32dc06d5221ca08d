// Package page is the web pages of the console: what is wrong on a node and its cluster, with what to do about it, and a few actions.
//
// Pages are rendered on the server and work without a script. The package reads nothing itself: it shows what commands print, through
// package command, and what package history measured. Every route passes through one guard, which checks the host, the session, the right and the form.
package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/background"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/history"
	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/internal/assets"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/plaintext"
)

// Options configure a Site.
type Options struct {
	Program  string // the sealift of the node
	Settings command.Settings
	Tokens   access.Tokens
	Sessions access.Sessions
	Issuer   *oidc.Client // logs people in, too; nil for logins by token only
	// Uploads says where uploaded bundles lie, and how much space there is. The pages fill in the rest.
	Uploads upload.Options
	// Background runs what outlives the console.
	Background *background.Runner
	// Audit has logins and actions. Refused has logins, rights and actions that were refused. A person can cause any number of these, and
	// they must not rotate the audit away.
	Audit, Refused *audit.Log
	// History returns what was measured in the last hour; nil for an overview without graphs.
	History func() []history.Sample
	// Host reports whether a request may name this host, without its port.
	Host func(name string) bool
	Node string // name of the node, for titles
	Log  *slog.Logger
	Now  func() time.Time
}

// Site is the pages of one console.
type Site struct {
	Options
	context   context.Context // of actions
	reader    *command.Reader
	fleet     *command.Reader // of the hub
	jobs      *command.Jobs
	spool     *upload.Spool
	attempts  *access.Attempts
	flows     *access.Attempts // of logins by an issuer: they keep nobody with a token out
	streams   chan struct{}
	crossSite *http.CrossOriginProtection
	templates *template.Template
	assets    assets.Set
}

//go:embed assets
var files embed.FS

// New makes the pages. Actions end with ctx.
func New(ctx context.Context, o Options) (*Site, error) {
	s := &Site{
		Options: o, context: ctx, reader: command.NewReader(o.Program, o.Now), attempts: access.NewAttempts(o.Now), flows: access.NewAttempts(o.Now), streams: make(chan struct{}, maxStreams),
		crossSite: http.NewCrossOriginProtection(),
	}
	s.fleet = s.reader.ForFleet(o.Settings.Fleet)
	s.jobs = command.NewJobs(o.Program, o.Now, s.jobEnded)
	err := s.openSpool(ctx)
	if err != nil {
		return nil, err
	}
	if s.assets, err = assets.Load(files, "assets", "style.css", "console.js", "upload.js"); err != nil {
		return nil, err
	}
	s.templates, err = template.New("").Funcs(template.FuncMap{
		"asset":   func(name string) string { return "/assets/" + s.assets.Name(name) },
		"bytes":   plaintext.Bytes[int64],
		"bytes64": plaintext.Bytes[uint64],
		"took":    func(d time.Duration) string { return d.Round(10 * time.Millisecond).String() },
		"zero":    time.Time.IsZero,
		"names":   joinNames,
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"when":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	}).ParseFS(files, "assets/*.html")
	return s, err
}

// Idle reports whether no action is running.
func (s *Site) Idle() bool { return s.jobs.Idle() }

// Handler serves the pages.
func (s *Site) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.Method+" "+r.Pattern, s.guarded(r))
	}
	return s.protected(mux)
}

// view is the data of a template.
type view struct {
	Node, Title, Path string
	Pages             []menuItem
	Session           access.Session
	Form              string // token of forms
	Refresh           bool   // without a script, the page reloads itself
	Data              any
}

// Allowed reports whether the person may do something.
func (v view) Allowed(right access.Right) bool { return v.Session.Role.Has(right) }

// Offer returns an action with the token of its form.
func (v view) Offer(o offer) formOffer { return formOffer{o, v.Form} }

// formOffer is the data of the form of an action.
type formOffer struct {
	Offer offer
	Form  string
}

// menuItem is a page of the menu.
type menuItem struct {
	Path, Title string
	Right       access.Right
}

func menu() []menuItem {
	return []menuItem{
		{"/", "Overview", access.ReadState}, {"/nodes", "Nodes", access.ReadState}, {"/join", "Join", access.ReadState}, {"/add-ons", "Add-ons", access.ReadState}, {"/snapshots", "Snapshots", access.ReadState},
		{"/certificates", "Certificates", access.ReadState}, {"/operations", "Operations", access.ReadState}, {"/bundles", "Bundles", access.ReadState}, {"/upgrade", "Upgrade", access.ReadState},
		{"/fleet", "Fleet", access.ReadFleet}, {"/fleet/rollouts", "Rollouts", access.ReadFleet}, {"/fleet/carried", "Carried", access.ReadFleet}, {"/support", "Support", access.ReadState}, {"/jobs", "Actions", access.ReadJobs}, {"/audit", "Audit", access.ReadAudit}, {"/sessions", "Sessions", access.ReadAudit},
	}
}

// visitor is who sends a request that the guard let pass.
type visitor struct {
	session access.Session
	secret  string // of the cookie, "" before a login
}

// show sends a page that has been rendered completely.
func (s *Site) show(w http.ResponseWriter, r *http.Request, v visitor, template string, status int, title string, data any) error {
	page := view{Node: s.Node, Title: title, Path: r.URL.Path, Session: v.session, Data: data}
	if v.secret != "" {
		page.Form = access.FormToken(v.secret)
	}
	for _, item := range menu() {
		if v.session.Role.Has(item.Right) && (item.Right != access.ReadFleet || s.Settings.Fleet.Program != "") {
			page.Pages = append(page.Pages, item)
		}
	}
	if refreshing, ok := data.(interface{ refresh() bool }); ok {
		page.Refresh = refreshing.refresh()
	}
	var buf bytes.Buffer
	if err := s.templates.ExecuteTemplate(&buf, template, page); err != nil {
		return err
	}
	if err := connlimit.Grow(r, int64(buf.Cap())); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the client may be gone
	return nil
}

// message is a page that says one thing.
type message struct {
	Text string
	Run  []string
}

// fail answers a request that cannot be carried out.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, v visitor, status int, title, text string, run ...string) error {
	return s.show(w, r, v, "message", status, title, message{Text: text, Run: run})
}

// file sends a style sheet or a script. Browsers may cache it forever, because its name changes with its content.
func (s *Site) file(w http.ResponseWriter, r *http.Request, _ visitor) error {
	if !s.assets.Serve(w, r, r.PathValue("file")) {
		return errNotFound
	}
	return nil
}

var errNotFound = errors.New("the console has no such page")
