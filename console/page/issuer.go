package page

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/internal/connlimit"
)

// issuerFor returns the issuer for the login page, and the address of that page by which its logins work, if the browser has another one:
// cookies of one name are not sent to another. Without an issuer in the cluster, there is none on the page.
func (s *Site) issuerFor(r *http.Request) (issuer, elsewhere string) {
	issuer, err := s.Issuer.IssuerURL()
	if err != nil {
		s.Log.Warn("nobody can log in by OpenID Connect", "error", err)
		return "", ""
	}
	if !strings.EqualFold(r.Host, s.Issuer.Host()) {
		elsewhere = strings.TrimSuffix(s.Issuer.URL, "/") + "/login"
	}
	return issuer, elsewhere
}

// beginLogin sends a browser to the issuer. Only the form of the login page does, and the cookie binds the answer to this browser.
func (s *Site) beginLogin(w http.ResponseWriter, r *http.Request, _ visitor) error {
	if s.Issuer == nil {
		return errNotFound
	}
	if !s.flows.Allow(connlimit.Key(r.RemoteAddr)) {
		return s.tooManyLogins(w, r)
	}
	address, secret, err := s.Issuer.Begin(r.Context())
	if err != nil {
		return s.notLoggedIn(w, r, err)
	}
	flow := cookie(oidc.Cookie, secret, oidc.FlowTime) //nolint:gosec // SameSite is set below; cookie sets the others
	flow.SameSite = http.SameSiteLaxMode               // it comes back from the issuer's site
	http.SetCookie(w, flow)
	return s.forward(w, r, "To the issuer", address)
}

// finishLogin begins the session of a person who comes back from the issuer. The secret of the session is always a new one.
func (s *Site) finishLogin(w http.ResponseWriter, r *http.Request, v visitor) error {
	if s.Issuer == nil {
		return errNotFound
	}
	var secret string
	if c, err := r.Cookie(oidc.Cookie); err == nil {
		secret = c.Value
	}
	person, err := s.Issuer.Finish(r.Context(), secret, r.URL.Query())
	if errors.Is(err, oidc.ErrNoFlow) && !s.flows.Allow(connlimit.Key(r.RemoteAddr)) { // anybody can cause these
		return s.tooManyLogins(w, r)
	}
	if err != nil {
		return s.notLoggedIn(w, r, err)
	}
	http.SetCookie(w, cookie(oidc.Cookie, "", -time.Second))
	if err := s.beginSession(w, r, v, person); err != nil {
		return err
	}
	return s.forward(w, r, "Logged in", "/")
}

// notLoggedIn shows the login page with the reason. A login by a token does not need the issuer.
func (s *Site) notLoggedIn(w http.ResponseWriter, r *http.Request, err error) error {
	reason := string(clean(err.Error()))
	switch {
	case errors.As(err, new(oidc.Refused)):
		s.note(s.Refused, r, visitor{}, "login by issuer", "refused", reason)
		return s.askToken(w, r, http.StatusForbidden, "Not logged in: "+reason+".")
	case errors.Is(err, oidc.ErrUnavailable):
		s.Log.Warn("nobody can log in by OpenID Connect", "error", err)
		return s.askToken(w, r, http.StatusBadGateway, "Not logged in: "+reason+". Log in with a token until then.")
	}
	return err
}

// forward sends a browser to another page by a page of the console, and not by a redirect. The policy of the pages lets a form end on the
// console itself only; and a browser that comes from the issuer sends its session, a strict cookie, with a request that a page of the console
// causes, but not with one that is part of a redirect.
func (s *Site) forward(w http.ResponseWriter, r *http.Request, title, address string) error {
	w.Header().Set("Refresh", "0; url="+address)
	return s.show(w, r, visitor{}, "forward", http.StatusOK, title, address)
}
