package page_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/command"
)

const (
	sessionCookie = "__Host-sealift-console"
	loginCookie   = "__Host-sealift-login"
)

// cookie returns the value that a header sets for a cookie, and all its attributes.
func cookie(h http.Header, name string) (value, line string) {
	for _, line := range h.Values("Set-Cookie") {
		if rest, ok := strings.CutPrefix(line, name+"="); ok {
			value, _, _ := strings.Cut(rest, ";")
			return value, line
		}
	}
	return "", ""
}

// TestAttacksAreRefused is the list of attacks on the console.
func TestAttacksAreRefused(t *testing.T) {
	pause := "/actions/" + command.PauseUpgrade
	attacks := map[string]func(*testing.T, *console){
		"a page without a session": func(t *testing.T, c *console) {
			if code, h, _ := c.person().get("/nodes"); code != http.StatusSeeOther || h.Get("Location") != "/login" {
				t.Errorf("got %d %s", code, h.Get("Location"))
			}
		},
		"a guessed session": func(t *testing.T, c *console) {
			code, _, _ := c.person().do("GET", "/nodes", nil, func(r *http.Request) { r.Header.Set("Cookie", sessionCookie+"=AAAAAAAAAAAAAAAAAAAAAAAAAA") })
			if code != http.StatusSeeOther {
				t.Errorf("got %d", code)
			}
		},
		"a session whose name leaves the folder": func(t *testing.T, c *console) {
			for _, value := range []string{"../../../etc/passwd", "..", "/", strings.Repeat("a", 5000)} {
				if code, _, _ := c.person().do("GET", "/nodes", nil, func(r *http.Request) { r.Header.Set("Cookie", sessionCookie+"="+value) }); code != http.StatusSeeOther {
					t.Errorf("%.20q: got %d", value, code)
				}
			}
		},
		"a form without its token, of another session, or of another site": func(t *testing.T, c *console) {
			p, other := c.as(access.Administrator), c.as(access.Administrator)
			own, foreign := p.form("/"), other.form("/")
			for _, form := range []string{"", "x", foreign} {
				if code, _, _ := p.post(pause, form, nil); code != http.StatusForbidden {
					t.Errorf("the token %q: got %d", form, code)
				}
			}
			for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
				if code, _, _ := p.do("POST", pause, url.Values{"form": {own}}, func(r *http.Request) {
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					r.Header.Set(name, value)
				}); code != http.StatusForbidden {
					t.Errorf("%s: %s: got %d", name, value, code)
				}
			}
			for _, form := range []url.Values{nil} { // the token in the URL is none
				if code, _, _ := p.do("POST", pause+"?form="+own, form, nil); code != http.StatusForbidden {
					t.Errorf("the token in the URL: got %d", code)
				}
			}
			if strings.Contains(c.calls(), "pause") {
				t.Error("an action was started")
			}
		},
		"an action by GET": func(t *testing.T, c *console) {
			p := c.as(access.Administrator)
			if code, _, _ := p.get(pause + "?form=" + p.form("/")); code != http.StatusNotFound || strings.Contains(c.calls(), "pause") {
				t.Errorf("got %d", code)
			}
		},
		"a login without the form's token": func(t *testing.T, c *console) {
			p, token := c.person(), c.newToken(access.Administrator)
			p.get("/login")
			if code, h, _ := p.post("/login", "x", url.Values{"token": {token}}); code != http.StatusForbidden || h.Get("Set-Cookie") != "" {
				t.Errorf("got %d %v", code, h)
			}
			if _, err := c.token.Redeem(token); err != nil {
				t.Errorf("the token was used: %v", err)
			}
		},
		"a replayed token": func(t *testing.T, c *console) {
			token := c.newToken(access.Administrator)
			for n, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
				p := c.person()
				code, h, text := p.post("/login", p.form("/login"), url.Values{"token": {token}})
				if value, _ := cookie(h, sessionCookie); code != want || (value != "") != (n == 0) || strings.Contains(text, token) {
					t.Errorf("login %d: got %d, cookie %q", n, code, value)
				}
			}
		},
		"a token that has ended": func(t *testing.T, c *console) {
			token := c.newToken(access.Administrator)
			c.clock.move(access.TokenTime)
			p := c.person()
			if code, _, _ := p.post("/login", p.form("/login"), url.Values{"token": {token}}); code != http.StatusForbidden {
				t.Errorf("got %d", code)
			}
		},
		"a session that was fixed before the login": func(t *testing.T, c *console) {
			old := c.as(access.Viewer)
			u, _ := url.Parse(c.URL)
			var known string
			for _, one := range old.Jar.Cookies(u) {
				if one.Name == sessionCookie {
					known = one.Value
				}
			}
			// The browser has the attacker's cookie when its person logs in.
			victim := c.person()
			_, h, text := victim.get("/login")
			form := formToken.FindStringSubmatch(text)[1]
			login, _ := cookie(h, loginCookie)
			for _, fixed := range []string{known, "AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
				code, h, _ := victim.do("POST", "/login", url.Values{"form": {form}, "token": {c.newToken(access.Administrator)}}, func(r *http.Request) {
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					r.Header.Set("Cookie", sessionCookie+"="+fixed+"; "+loginCookie+"="+login)
				})
				got, _ := cookie(h, sessionCookie)
				if code != http.StatusSeeOther || got == "" || got == fixed {
					t.Errorf("got %d, cookie %q", code, got)
				}
			}
			if code, _, _ := old.get("/"); code != http.StatusSeeOther {
				t.Errorf("the attacker's session still works: %d", code)
			}
		},
		"a session after the idle time, and after 12 hours": func(t *testing.T, c *console) {
			p := c.as(access.Viewer)
			c.clock.move(access.IdleTime)
			if code, _, _ := p.get("/"); code != http.StatusSeeOther {
				t.Errorf("after the idle time: %d", code)
			}
			p = c.as(access.Viewer)
			for range int(access.SessionTime / (20 * time.Minute)) {
				c.clock.move(20 * time.Minute)
				p.get("/login")
			}
			if code, _, _ := p.get("/"); code != http.StatusSeeOther {
				t.Errorf("after 12 hours: %d", code)
			}
		},
		"a session after its logout, and after it was ended by an administrator": func(t *testing.T, c *console) {
			p := c.as(access.Viewer)
			u, _ := url.Parse(c.URL)
			kept := p.Jar.Cookies(u)
			if code, _, _ := p.post("/logout", p.form("/"), nil); code != http.StatusSeeOther {
				t.Fatalf("log out: %d", code)
			}
			p.Jar.SetCookies(u, kept)
			if code, _, _ := p.get("/"); code != http.StatusSeeOther {
				t.Errorf("after the logout: %d", code)
			}
			victim, admin := c.as(access.Viewer), c.as(access.Administrator)
			_, _, text := admin.get("/sessions")
			for _, part := range strings.Split(text, `action="/sessions/`)[1:] {
				id, _, _ := strings.Cut(part, "/")
				if row, _, _ := strings.Cut(part, "</tr>"); !strings.Contains(row, "this one") {
					if code, _, _ := admin.post("/sessions/"+id+"/end", admin.form("/"), nil); code != http.StatusSeeOther {
						t.Errorf("end session %s: %d", id, code)
					}
				}
			}
			if code, _, _ := victim.get("/"); code != http.StatusSeeOther {
				t.Errorf("after it was ended: %d", code)
			}
		},
		"a forged Host": func(t *testing.T, c *console) {
			p := c.as(access.Administrator)
			for _, host := range []string{"evil.example", "evil.example:6446", "127.0.0.1.evil.example", "[::2]:6446", ""} {
				code, h, text := p.do("GET", "/", nil, func(r *http.Request) { r.Host = host })
				if host == "" {
					continue // the client fills in the URL's
				}
				if code != http.StatusMisdirectedRequest || strings.Contains(text+h.Get("Location"), "evil") {
					t.Errorf("%q: got %d", host, code)
				}
			}
		},
		"too many logins": func(t *testing.T, c *console) {
			p := c.person()
			codes := map[int]int{}
			for range 20 {
				code, _, _ := p.post("/login", p.form("/login"), url.Values{"token": {"AAAAAAAAAAAAAAAAAAAAAAAAAA"}})
				codes[code]++
			}
			if codes[http.StatusForbidden] > 8 || codes[http.StatusTooManyRequests] < 12 { // a slow machine gets some back
				t.Errorf("got %v", codes)
			}
		},
		"a form that is too long": func(t *testing.T, c *console) {
			p := c.as(access.Administrator)
			if code, _, _ := p.post(pause, p.form("/"), url.Values{"x": {strings.Repeat("a", 1<<20)}}); code != http.StatusForbidden {
				t.Errorf("got %d", code)
			}
		},
		"values that are not in the list": func(t *testing.T, c *console) {
			p := c.as(access.Administrator)
			for _, row := range []struct{ action, field, value string }{
				{command.VerifySnapshot, "snapshot", "--identity=/etc/shadow"}, {command.VerifySnapshot, "snapshot", "../x"}, {command.PlanUpgrade, "bundle", "../../etc/x.tar.gz"}, {command.PlanUpgrade, "bundle", "$(id).tar.gz"},
			} {
				if code, _, _ := p.post("/actions/"+row.action, p.form("/"), url.Values{row.field: {row.value}}); code != http.StatusBadRequest {
					t.Errorf("%v: got %d", row, code)
				}
			}
			if strings.Contains(c.calls(), "verify") || strings.Contains(c.calls(), "--bundle") {
				t.Errorf("a command was run: %s", c.calls())
			}
		},
		"the key of a snapshot in the form": func(t *testing.T, c *console) {
			p := c.as(access.Administrator)
			values := url.Values{}
			for _, name := range []string{"key", "snapshotKey", "{snapshotKey}", "store", "snapshotStore"} {
				values.Set(name, "age1evil")
			}
			code, h, _ := p.post("/actions/"+command.SaveSnapshot, p.form("/"), values)
			if code != http.StatusSeeOther {
				t.Fatalf("got %d", code)
			}
			p.finish(h.Get("Location"))
			if calls := c.calls(); strings.Contains(calls, "evil") || !strings.Contains(calls, "snapshot save --key age1key --store /backups -o json") {
				t.Errorf("the command was %s", calls)
			}
		},
	}
	maps.Copy(attacks, issuerAttacks())
	for attack, run := range attacks {
		t.Run(attack, func(t *testing.T) {
			t.Parallel()
			run(t, start(t, documents()))
		})
	}
}

// wait waits for a state that a program reaches.
func wait(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not after a minute")
		}
	}
}

func TestCookiesAreOnlyForTheConsole(t *testing.T) {
	c := start(t, documents())
	p := c.person()
	_, first, text := p.get("/login")
	_, second, _ := p.post("/login", formToken.FindStringSubmatch(text)[1], url.Values{"token": {c.newToken(access.Viewer)}})
	for name, h := range map[string]http.Header{loginCookie: first, sessionCookie: second} {
		_, line := cookie(h, name)
		for _, want := range []string{"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} {
			if !strings.Contains(line, want) {
				t.Errorf("cookie %q lacks %s", line, want)
			}
		}
		if strings.Contains(line, "Domain") {
			t.Errorf("cookie %q has a domain", line)
		}
	}
}
