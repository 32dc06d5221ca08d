package page

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/internal/connlimit"
)

const (
	// loginCookie has the token of the login form.
	loginCookie = "__Host-sealift-login"
	// formField is the field with the token of a form. A script sends it in access.FormHeader.
	formField = "form"
	// maxForm is the maximum length of a form, in bytes.
	maxForm = 16 << 10
)

// policy lets a page load only the console's own files.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// route is a page or an action.
type route struct {
	Method, Pattern string
	// Right is what a session needs; "" for what everybody gets before a login.
	Right access.Right
	// Handle returns errors before it has written anything.
	Handle func(http.ResponseWriter, *http.Request, visitor) error
}

// maxBody is the maximum length of a body, in bytes. A PATCH carries a chunk of an upload, everything else a form.
func (r route) maxBody() int64 {
	if r.Method == http.MethodPatch {
		return upload.MaxChunk
	}
	return maxForm
}

// routes is the table of everything that the console serves.
func (s *Site) routes() []route {
	return []route{
		{"GET", "/login", "", s.loginForm},
		{"POST", "/login", "", s.login},
		{"POST", "/login/oidc", "", s.beginLogin},
		{"GET", oidc.CallbackPath, "", s.finishLogin},
		{"GET", "/assets/{file}", "", s.file},
		{"GET", "/{$}", access.ReadState, s.overview},
		{"GET", "/nodes", access.ReadState, s.nodes},
		{"GET", "/add-ons", access.ReadState, s.addOns},
		{"GET", "/snapshots", access.ReadState, s.snapshots},
		{"GET", "/join", access.ReadState, s.joinPage},
		{"POST", "/join", access.InviteWorker, s.join},
		{"GET", "/certificates", access.ReadState, s.certificates},
		{"GET", "/operations", access.ReadState, s.operations},
		{"GET", "/upgrade", access.ReadState, s.upgrade},
		{"GET", "/upgrade/events", access.ReadState, s.upgradeEvents},
		{"GET", "/support", access.ReadState, s.support},
		{"GET", "/fleet", access.ReadFleet, s.fleetClusters},
		{"GET", "/fleet/rollouts", access.ReadFleet, s.fleetRollouts},
		{"GET", "/fleet/rollouts/{name}", access.ReadFleet, s.fleetRollout},
		{"GET", "/fleet/carried", access.ReadFleet, s.fleetCarried},
		{"GET", "/bundles", access.ReadState, s.bundles},
		{"GET", "/bundles/{from}/{name}", access.ReadState, s.bundle},
		{"GET", "/bundles/uploaded/{name}/delete", access.DeleteBundle, s.askDelete},
		{"POST", "/bundles/uploaded/{name}/delete", access.DeleteBundle, s.deleteBundle},
		{"POST", "/uploads", access.UploadBundle, s.createUpload},
		{"GET", "/uploads/{id}", access.UploadBundle, s.showUpload},
		{"PATCH", "/uploads/{id}", access.UploadBundle, s.receiveChunk},
		{"POST", "/uploads/{id}/cancel", access.UploadBundle, s.cancelUpload},
		{"POST", "/logout", access.ReadState, s.logout},
		{"GET", "/jobs", access.ReadJobs, s.listJobs},
		{"GET", "/jobs/{id}", access.ReadJobs, s.job},
		{"GET", "/jobs/{id}/events", access.ReadJobs, s.events},
		{"POST", "/actions/{name}", access.ReadJobs, s.act}, // and the right of the action
		{"GET", "/audit", access.ReadAudit, s.auditPage},
		{"GET", "/sessions", access.ReadAudit, s.sessionsPage},
		{"POST", "/sessions/{id}/end", access.EndSession, s.endSession},
		{"GET", "/", access.ReadState, notFound}, // everything else
	}
}

func notFound(http.ResponseWriter, *http.Request, visitor) error { return errNotFound }

// protected is what applies to every request, even to one without a route.
func (s *Site) protected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.Host(hostOf(r.Host)) {
			http.Error(w, "this console does not answer to that name; root on the node adds one: sealift-console on --host NAME", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns a host without its port.
func hostOf(text string) string {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		host = text
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	return host
}

// guarded checks the session, the right and the form before the handler of a route.
func (s *Site) guarded(to route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, to.maxBody())
		v, err := s.visitorOf(r)
		switch {
		case errors.Is(err, access.ErrNoSession) && to.Right != "":
			s.sendToLogin(w, r)
			return
		case err != nil && to.Right != "":
			s.answer(w, r, v, err)
			return
		case to.Right != "" && !v.session.Role.Has(to.Right):
			s.refuse(w, r, v, to.Right)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !s.isOwnForm(r, to, v) {
			s.Log.Warn("refused a form of another site", "path", r.URL.Path, "from", r.RemoteAddr)
			s.answer(w, r, v, s.fail(w, r, v, http.StatusForbidden, "Refused", "The form does not come from this console, or it is older than your login. Open the page again."))
			return
		}
		s.answer(w, r, v, to.Handle(w, r, v))
	})
}

// visitorOf returns the session of a request.
func (s *Site) visitorOf(r *http.Request) (v visitor, err error) {
	cookie, err := r.Cookie(access.SessionCookie)
	if err != nil {
		return v, access.ErrNoSession
	}
	session, err := s.sessionOf(cookie.Value)
	if err != nil {
		return v, err
	}
	return visitor{session, cookie.Value}, nil
}

// sessionOf returns the session of a secret. One of an issuer ends when the Installer no longer gives the person's group the role.
func (s *Site) sessionOf(secret string) (access.Session, error) {
	session, err := s.Sessions.Find(secret)
	if err == nil && session.Issuer != "" && (s.Issuer == nil || !s.Issuer.Holds(session.Person)) {
		return access.Session{}, errors.Join(access.ErrNoSession, s.Sessions.End(secret))
	}
	return session, err
}

// isOwnForm reports whether a request comes from a form or the script of this console: by the headers of browsers, and by a token that
// another site cannot know. Before a login, that token is in a cookie.
func (s *Site) isOwnForm(r *http.Request, to route, v visitor) bool {
	if s.crossSite.Check(r) != nil {
		return false
	}
	sent := r.Header.Get(access.FormHeader)
	if sent == "" && r.Method == http.MethodPost {
		if r.ParseForm() != nil {
			return false
		}
		sent = r.PostForm.Get(formField)
	}
	if to.Right != "" {
		return access.SameToken(sent, access.FormToken(v.secret))
	}
	cookie, err := r.Cookie(loginCookie)
	return err == nil && access.SameToken(sent, cookie.Value)
}

// sendToLogin answers a request without a session. What a script requests gets a status.
func (s *Site) sendToLogin(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Accept") == eventStream || r.Header.Get(access.FormHeader) != "" {
		http.Error(w, access.ErrNoSession.Error(), http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// refuse answers a person whose role lacks a right.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, v visitor, right access.Right) {
	s.note(s.Refused, r, v, string(right), "refused", "")
	roles := access.Roles()
	needed := roles[slices.IndexFunc(roles, func(role access.Role) bool { return role.Has(right) })]
	s.answer(w, r, v, s.fail(w, r, v, http.StatusForbidden, "Not allowed",
		fmt.Sprintf("The role %s may not do this (%s). Root on the node makes a token for another role.", v.session.Role, right), "sudo sealift-console token --role "+string(needed)))
}

// answer reports the error of a handler.
func (s *Site) answer(w http.ResponseWriter, r *http.Request, v visitor, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errNotFound):
		err = s.fail(w, r, v, http.StatusNotFound, "Not found", "There is nothing under this address. The console keeps the last actions only.")
		if err != nil {
			http.Error(w, errNotFound.Error(), http.StatusNotFound)
		}
	case errors.Is(err, connlimit.ErrFull):
		http.Error(w, "too much is in progress; wait until some ends", http.StatusTooManyRequests)
	default:
		s.Log.Error("a page failed", "path", r.URL.Path, "error", err)
		http.Error(w, "the console failed; root on the node reads why: journalctl -u sealift-console", http.StatusInternalServerError)
	}
}

// note writes a line of the audit.
func (s *Site) note(to *audit.Log, r *http.Request, v visitor, what, result, detail string) {
	if err := to.Write(s.entry(r, v, what, result, detail)); err != nil {
		s.Log.Error("the audit lacks a line", "what", what, "result", result, "who", v.session.Who(), "error", err)
	}
}

func (s *Site) entry(r *http.Request, v visitor, what, result, detail string) audit.Entry {
	return audit.Entry{Time: s.Now(), Who: v.session.Who(), Role: string(v.session.Role), Session: v.session.ID, From: clientOf(r), What: what, Result: result, Detail: detail}
}

// clientOf returns the address of the client.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
