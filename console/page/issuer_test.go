package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/internal/testing/issuer"
	"github.com/sealift/sealift/spec"
)

// loginFile is the name of the file with kubernetes.oidc.
const loginFile = "login.json"

// atIssuer is a console at which people log in by an issuer, too.
type atIssuer struct {
	*console
	issuer    *issuer.Issuer
	installer *spec.OIDC // the Installer's
}

// startWithIssuer serves a console with an issuer whose groups platform, operators and staff have roles. Vera of staff logs in next.
func startWithIssuer(t *testing.T) *atIssuer {
	t.Helper()
	c := &atIssuer{console: start(t, documents()), issuer: issuer.Start(t)}
	c.issuer.Person = map[string]any{"sub": "17", "email": "vera@example.org", "groups": []string{"staff"}}
	c.installer = &spec.OIDC{
		Issuers: []spec.Issuer{{URL: c.issuer.URL(), Audiences: []string{"kubernetes"}, CACertificate: c.issuer.CA(), Claims: spec.Claims{Username: "email", UsernamePrefix: "oidc:", Groups: "groups", GroupsPrefix: "oidc:"}}},
		Admins:  []string{"oidc:platform"}, Operators: []string{"oidc:operators"}, Viewers: []string{"oidc:staff"},
	}
	c.setLogin()
	c.openID(oidc.Settings{ClientID: "console"})
	return c
}

// openID gives the console its settings, and the issuer its client.
func (c *atIssuer) openID(s oidc.Settings) {
	c.t.Helper()
	s.URL = c.URL
	c.issuer.Client.ID, c.issuer.Client.RedirectURI = s.ClientID, s.RedirectURI()
	c.options.Issuer = oidc.New(s, filepath.Join(c.dir, loginFile), c.clock.now)
	c.restart()
}

// setLogin writes kubernetes.oidc, as the agent does.
func (c *atIssuer) setLogin() {
	c.t.Helper()
	text, err := json.Marshal(c.installer)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, loginFile), text, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// toIssuer begins a login, and returns where the browser is sent.
func (p *person) toIssuer() (address string) {
	p.t.Helper()
	code, h, text := p.post("/login/oidc", p.form("/login"), nil)
	address, ok := strings.CutPrefix(h.Get("Refresh"), "0; url=")
	if code != http.StatusOK || !ok {
		p.t.Fatalf("begin: %d %v %s", code, h, text)
	}
	return address
}

// fromIssuer lets the issuer log the person in, and returns the path of the console to which the issuer sends the browser.
func (p *person) fromIssuer(address string) (path string) {
	p.t.Helper()
	resp, err := p.Get(address)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	path, ok := strings.CutPrefix(resp.Header.Get("Location"), p.URL)
	if !ok {
		p.t.Fatalf("the issuer answers %s %v", resp.Status, resp.Header)
	}
	return path
}

// loginAtIssuer goes all the way.
func (p *person) loginAtIssuer() (int, http.Header, string) {
	p.t.Helper()
	return p.get(p.fromIssuer(p.toIssuer()))
}

// heading returns the heading of a page, which names the person.
func (p *person) heading() string {
	_, _, text := p.get("/")
	_, text, _ = strings.Cut(text, `<span>`)
	_, text, _ = strings.Cut(text, `<span>`)
	text, _, _ = strings.Cut(text, `</span>`)
	return text
}

func TestGroupsOfIssuerGiveRoles(t *testing.T) {
	for groups, want := range map[string]string{
		"staff": "oidc:vera@example.org, viewer", "operators": "oidc:vera@example.org, operator", "platform": "oidc:vera@example.org, administrator",
		"staff operators guests": "oidc:vera@example.org, operator", "platform staff": "oidc:vera@example.org, administrator",
	} {
		t.Run(groups, func(t *testing.T) {
			t.Parallel()
			c := startWithIssuer(t)
			c.issuer.Person["groups"] = strings.Fields(groups)
			if groups == "staff" {
				c.issuer.Person["groups"] = groups // a claim may be one word
			}
			p := c.person()
			code, h, text := p.loginAtIssuer()
			if code != http.StatusOK || h.Get("Refresh") != "0; url=/" {
				t.Fatalf("got %d %v %s", code, h, text)
			}
			if got := p.heading(); got != want {
				t.Errorf("logged in as %q, want %q", got, want)
			}
		})
	}
}

// TestCookieOfLoginIsForTheConsole: the cookie comes back from the issuer's site, and goes with the login.
func TestCookieOfLoginIsForTheConsole(t *testing.T) {
	c := startWithIssuer(t)
	p := c.person()
	_, h, _ := p.post("/login/oidc", p.form("/login"), nil)
	_, line := cookie(h, oidc.Cookie)
	for _, want := range []string{"Path=/", "Max-Age=600", "Secure", "HttpOnly", "SameSite=Lax"} {
		if !strings.Contains(line, want) {
			t.Errorf("cookie %q lacks %s", line, want)
		}
	}
	_, h, _ = p.get(p.fromIssuer(strings.TrimPrefix(h.Get("Refresh"), "0; url=")))
	if value, line := cookie(h, oidc.Cookie); value != "" || !strings.Contains(line, "Max-Age=0") {
		t.Errorf("after the login: %q", line)
	}
	if _, line := cookie(h, sessionCookie); !strings.Contains(line, "SameSite=Strict") {
		t.Errorf("the session: %q", line)
	}
}

// TestAuditNamesIssuerAndSubject logs in, starts something, and logs out.
func TestAuditNamesIssuerAndSubject(t *testing.T) {
	c := startWithIssuer(t)
	c.issuer.Person["groups"] = []string{"operators"}
	c.release()
	p := c.person()
	p.loginAtIssuer()
	_, h, _ := p.post("/actions/snapshot-save", p.form("/"), nil)
	p.finish(h.Get("Location"))
	if code, _, _ := p.post("/logout", p.form("/"), nil); code != http.StatusSeeOther {
		t.Errorf("log out: %d", code)
	}
	if code, h, _ := p.get("/"); code != http.StatusSeeOther || h.Get("Location") != "/login" {
		t.Errorf("after the logout: %d %v", code, h)
	}
	lines, err := c.audit.Last(9)
	if err != nil || len(lines) != 4 {
		t.Fatalf("%+v %v", lines, err)
	}
	for _, line := range lines {
		if want := fmt.Sprintf("oidc:vera@example.org (17 of %s)", c.issuer.URL()); line.Who != want {
			t.Errorf("%s by %q, want %q", line.What, line.Who, want)
		}
	}
}

// TestConfidentialClientProvesItself gives the console a secret, which it reads with each login.
func TestConfidentialClientProvesItself(t *testing.T) {
	c := startWithIssuer(t)
	secret := filepath.Join(c.dir, "secret")
	if err := os.WriteFile(secret, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.issuer.Client.Secret = "s3cret"
	c.openID(oidc.Settings{ClientID: "console", ClientSecret: secret})
	if code, _, text := c.person().loginAtIssuer(); code != http.StatusForbidden || !strings.Contains(text, "invalid_client") {
		t.Errorf("another secret: %d %s", code, text)
	}
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, text := c.person().loginAtIssuer(); code != http.StatusOK || strings.Contains(text, "s3cret") {
		t.Errorf("got %d %s", code, text)
	}
}

// TestSessionEndsWithItsGroup takes a group out of the Installer, gives it another role, and takes the issuer away.
func TestSessionEndsWithItsGroup(t *testing.T) {
	for change, do := range map[string]func(*atIssuer){
		"a group that the Installer no longer names": func(c *atIssuer) { c.installer.Viewers = nil; c.setLogin() },
		"a group with another role":                  func(c *atIssuer) { c.installer.Viewers, c.installer.Operators = nil, c.installer.Viewers; c.setLogin() },
		"another issuer":                             func(c *atIssuer) { c.installer.Issuers[0].URL += "/x"; c.setLogin() },
		"no issuer any more":                         func(c *atIssuer) { c.installer = nil; c.setLogin() },
		"a cluster that never had one": func(c *atIssuer) {
			if err := os.Remove(filepath.Join(c.dir, loginFile)); err != nil {
				c.t.Fatal(err)
			}
		},
		"a console without OpenID Connect": func(c *atIssuer) { c.options.Issuer = nil; c.restart() },
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			c := startWithIssuer(t)
			p, other := c.person(), c.as(access.Viewer)
			p.loginAtIssuer()
			if code, _, _ := p.get("/nodes"); code != http.StatusOK {
				t.Fatalf("before: %d", code)
			}
			do(c)
			if code, _, _ := p.get("/nodes"); code != http.StatusSeeOther {
				t.Errorf("after: %d", code)
			}
			if all, err := c.options.Sessions.List(); err != nil || len(all) != 1 {
				t.Errorf("left %+v, %v", all, err)
			}
			if code, _, _ := other.get("/nodes"); code != http.StatusOK {
				t.Errorf("a session by token: %d", code)
			}
		})
	}
}

// TestAbsentIssuerLocksNobodyOut stops the issuer, and takes it out of the cluster.
func TestAbsentIssuerLocksNobodyOut(t *testing.T) {
	c := startWithIssuer(t)
	p := c.person()
	p.toIssuer() // the console knows the issuer
	c.issuer.Stop()
	c.clock.move(2 * time.Minute)
	code, h, text := p.post("/login/oidc", p.form("/login"), nil)
	if code != http.StatusBadGateway || h.Get("Refresh") != "" || !strings.Contains(text, "Log in with a token until then") {
		t.Errorf("got %d %v %s", code, h, text)
	}
	c.as(access.Viewer)
	c.installer = nil
	c.setLogin()
	if code, _, text := p.get("/login"); code != http.StatusOK || strings.Contains(text, "/login/oidc") {
		t.Errorf("without an issuer: %d %s", code, text)
	}
	c.as(access.Viewer)
}

// TestLoginContinuesUnderIssuersName reads the login page by a name that is not the one of the redirect URI. Its cookie would not come back.
func TestLoginContinuesUnderIssuersName(t *testing.T) {
	c := startWithIssuer(t)
	c.options.Host = func(string) bool { return true }
	c.restart()
	p := c.person()
	_, _, text := p.do(http.MethodGet, "/login", nil, func(r *http.Request) { r.Host = "node-1:6446" })
	if !strings.Contains(text, `href="`+c.URL+`/login"`) || strings.Contains(text, `action="/login/oidc"`) {
		t.Errorf("by another name: %s", text)
	}
	address, err := url.Parse(p.toIssuer())
	if err != nil || address.Query().Get("redirect_uri") != c.URL+"/login/oidc/callback" || address.Query().Get("scope") != "openid email groups" {
		t.Errorf("the browser is sent to %s, %v", address, err)
	}
}
