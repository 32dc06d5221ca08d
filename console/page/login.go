package page

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/internal/connlimit"
)

// loginPage is the data of the login page.
type loginPage struct {
	Token     string // of the form
	Problem   string
	Issuer    string // where people can log in, too
	Elsewhere string // the login page by the name of the console that the issuer knows, if this is another one
}

func (s *Site) loginForm(w http.ResponseWriter, r *http.Request, v visitor) error {
	if v.secret != "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	return s.askToken(w, r, http.StatusOK, "")
}

// askToken shows the login form, with a token of its own: another site must not log a browser in.
func (s *Site) askToken(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	token := rand.Text()
	http.SetCookie(w, cookie(loginCookie, token, access.TokenTime))
	p := loginPage{Token: token, Problem: problem}
	if s.Issuer != nil {
		p.Issuer, p.Elsewhere = s.issuerFor(r)
	}
	return s.show(w, r, visitor{}, "login", status, "Log in", p)
}

func cookie(name, value string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(lasts.Seconds())}
}

// login begins a session for a token. The secret of the session is always a new one, and an older session of the browser ends.
func (s *Site) login(w http.ResponseWriter, r *http.Request, v visitor) error {
	if !s.attempts.Allow(connlimit.Key(r.RemoteAddr)) {
		return s.tooManyLogins(w, r)
	}
	if err := s.Sessions.Room(); err != nil {
		return err
	}
	token, err := s.Tokens.Redeem(r.PostForm.Get("token"))
	if errors.Is(err, access.ErrRefused) {
		s.note(s.Refused, r, visitor{}, "login", "refused", "")
		return s.askToken(w, r, http.StatusForbidden, "The token is not valid: it was used, it is older than 10 minutes, or it is mistyped.")
	}
	if err != nil {
		return err
	}
	if err := s.beginSession(w, r, v, token.Person); err != nil {
		return err
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// beginSession begins the session of a person, and gives its secret to the browser.
func (s *Site) beginSession(w http.ResponseWriter, r *http.Request, v visitor, p access.Person) error {
	if v.secret != "" {
		if err := s.Sessions.End(v.secret); err != nil {
			return err
		}
	}
	secret, session, err := s.Sessions.Begin(p, clientOf(r))
	if err != nil {
		return err
	}
	s.note(s.Audit, r, visitor{session: session}, "login", "done", "")
	http.SetCookie(w, cookie(loginCookie, "", -time.Second))
	http.SetCookie(w, cookie(access.SessionCookie, secret, access.SessionTime))
	return nil
}

func (s *Site) logout(w http.ResponseWriter, r *http.Request, v visitor) error {
	if err := s.Sessions.End(v.secret); err != nil {
		return err
	}
	s.note(s.Audit, r, v, "logout", "done", "")
	http.SetCookie(w, cookie(access.SessionCookie, "", -time.Second))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}

func (s *Site) tooManyLogins(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Retry-After", "10")
	return s.askToken(w, r, http.StatusTooManyRequests, "Too many logins were tried. Wait a few seconds, and try again.")
}

// sessionsPage is the data of the page with sessions.
type sessionsPage struct{ Sessions []access.Session }

func (s *Site) sessionsPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	all, err := s.Sessions.List()
	if err != nil {
		return err
	}
	return s.show(w, r, v, "sessions", http.StatusOK, "Sessions", sessionsPage{all})
}

func (s *Site) endSession(w http.ResponseWriter, r *http.Request, v visitor) error {
	all, err := s.Sessions.List()
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	at := slices.IndexFunc(all, func(one access.Session) bool { return one.ID == id })
	if at < 0 {
		return errNotFound
	}
	if _, err := s.Sessions.Revoke(func(one access.Session) bool { return one.ID == id }); err != nil {
		return err
	}
	s.note(s.Audit, r, v, "end session", "done", all[at].Who()+" "+id)
	http.Redirect(w, r, "/sessions", http.StatusSeeOther)
	return nil
}
