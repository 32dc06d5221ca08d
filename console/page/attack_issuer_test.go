package page_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/internal/testing/issuer"
)

// notLoggedIn fails t unless an answer says so and gives the browser no session.
func notLoggedIn(t *testing.T, what string, code int, h http.Header, text, want string) {
	t.Helper()
	if value, _ := cookie(h, sessionCookie); code != http.StatusForbidden || value != "" || !strings.Contains(text, want) {
		t.Errorf("%s: got %d, session %q; want %q in %s", what, code, value, want, text)
	}
}

// claims returns the claims of an honest issuer with others.
func claims(of *issuer.Issuer, honest map[string]any, others map[string]any) map[string]any {
	all := of.Whole(honest)
	maps.Copy(all, others)
	return all
}

// unsigned returns a token with algorithm none.
func unsigned(t *testing.T, claims map[string]any) string {
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(text) + "."
}

// symmetric returns a token that is signed with the public key as if it were a secret.
func symmetric(t *testing.T, key []byte, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "key-1"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// forged are ID tokens that give nobody a session, with what the console says.
func forged(t *testing.T) map[string]struct {
	says  string
	forge func(c *atIssuer, honest map[string]any) string
} {
	with := func(others map[string]any) func(*atIssuer, map[string]any) string {
		return func(c *atIssuer, honest map[string]any) string {
			return c.issuer.Token(t, claims(c.issuer, honest, others))
		}
	}
	at := func(claim string, off time.Duration) func(*atIssuer, map[string]any) string {
		return func(c *atIssuer, honest map[string]any) string {
			return with(map[string]any{claim: c.clock.now().Add(off).Unix()})(c, honest)
		}
	}
	return map[string]struct {
		says  string
		forge func(c *atIssuer, honest map[string]any) string
	}{
		"another nonce":                   {"its nonce differs", with(map[string]any{"nonce": "AAAAAAAAAAAAAAAAAAAAAAAAAA"})},
		"no nonce":                        {"its nonce differs", with(map[string]any{"nonce": ""})},
		"another audience":                {"expected audience", with(map[string]any{"aud": "kubernetes"})},
		"several audiences":               {"for several clients", with(map[string]any{"aud": []string{"console", "wiki"}})},
		"another authorized party":        {"issued to another client", with(map[string]any{"aud": []string{"console", "wiki"}, "azp": "wiki"})},
		"another issuer":                  {"issued by a different provider", with(map[string]any{"iss": "https://login.example.org"})},
		"an end in the past":              {"expired", at("exp", -2*time.Minute)},
		"a begin in the future":           {"in the future", at("iat", 2*time.Minute)},
		"no subject":                      {"no subject", with(map[string]any{"sub": ""})},
		"a subject that is two lines":     {"no subject", with(map[string]any{"sub": "1\n2"})},
		"a name with control characters":  {"is not a name", with(map[string]any{"email": "a\x1b[2Jb"})},
		"an address that is not verified": {"not verified", with(map[string]any{"email_verified": false})},
		"groups that are not a list":      {"not a list", with(map[string]any{"groups": map[string]any{"staff": true}})},
		"no group that has a role":        {"oidc:vera@example.org has no role", with(map[string]any{"groups": []string{"guests", "oidc:platform"}})},
		"no group at all":                 {"oidc:vera@example.org has no role", with(map[string]any{"groups": nil})},
		"more than 64 KiB":                {"more than 65536", with(map[string]any{"groups": []string{"staff", strings.Repeat("x", 70_000)}})},
		"algorithm none":                  {"not valid", func(c *atIssuer, honest map[string]any) string { return unsigned(t, c.issuer.Whole(honest)) }},
		"a signature with the public key": {"not valid", func(c *atIssuer, honest map[string]any) string {
			return symmetric(t, c.issuer.Key(t), c.issuer.Whole(honest))
		}},
		"a signature of another issuer": {"verify signature", func(c *atIssuer, honest map[string]any) string {
			return issuer.Start(t).Token(t, c.issuer.Whole(honest))
		}},
		"claims that were changed":   {"verify signature", func(c *atIssuer, honest map[string]any) string { return changed(c.issuer.Token(t, honest)) }},
		"no token":                   {"no ID token", func(*atIssuer, map[string]any) string { return "" }},
		"a text that is not a token": {"not valid", func(*atIssuer, map[string]any) string { return "<script>alert(1)</script>" }},
	}
}

// changed replaces the group staff in the claims of a token with that of administrators.
func changed(token string) string {
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err.Error()
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(text), `"staff"`, `"platform"`, 1)))
	return strings.Join(parts, ".")
}

// issuerAttacks are the attacks on logins by an issuer.
func issuerAttacks() map[string]func(*testing.T, *console) {
	all := map[string]func(*testing.T, *atIssuer){
		"a forged ID token":                                     attackWithForgedTokens,
		"a replayed code":                                       attackWithReplayedCode,
		"the answer to another browser":                         attackWithForeignAnswer,
		"a login that another site begins":                      attackWithForeignBegin,
		"a session that was fixed before a login at the issuer": attackWithFixedSession,
		"an answer that sends the browser elsewhere":            attackWithRedirects,
		"an answer of another issuer":                           attackWithMixUp,
		"a login that takes more than 10 minutes":               attackWithOldLogin,
		"a description that leads elsewhere":                    attackWithDescription,
		"a slow issuer":                                         attackWithSlowIssuer,
		"too many logins at the issuer":                         attackWithManyLogins,
	}
	found := make(map[string]func(*testing.T, *console))
	for name, attack := range all {
		found[name] = func(t *testing.T, _ *console) { attack(t, startWithIssuer(t)) }
	}
	return found
}

func attackWithForgedTokens(t *testing.T, c *atIssuer) {
	for name, row := range forged(t) {
		c.clock.move(10 * time.Second) // the next login
		c.issuer.Forge = func(honest map[string]any) string { return row.forge(c, honest) }
		code, h, text := c.person().loginAtIssuer()
		notLoggedIn(t, name, code, h, text, row.says)
		if strings.Contains(text, "<script>alert") {
			t.Errorf("%s: the page has markup of the issuer", name)
		}
	}
	lines, err := c.options.Refused.Last(99)
	if err != nil || len(lines) != len(forged(t)) {
		t.Errorf("%d logins are recorded as refused: %v", len(lines), err)
	}
	if all, err := c.options.Sessions.List(); err != nil || len(all) > 0 {
		t.Errorf("sessions %+v, %v", all, err)
	}
}

func attackWithReplayedCode(t *testing.T, c *atIssuer) {
	p := c.person()
	answer := p.fromIssuer(p.toIssuer())
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	kept := p.Jar.Cookies(u)
	if code, _, text := p.get(answer); code != http.StatusOK {
		t.Fatalf("got %d %s", code, text)
	}
	p.post("/logout", p.form("/"), nil)
	code, h, text := p.get(answer)
	notLoggedIn(t, "the same answer again", code, h, text, "begin again")
	p.Jar.SetCookies(u, kept)
	c.issuer.Lax = true
	code, h, text = p.get(answer)
	notLoggedIn(t, "the same answer again, with the cookie, of an issuer that accepts codes twice", code, h, text, "begin again")
	// The code of somebody else's answer, which did not arrive, in the attacker's own login. The second issuer neither knows PKCE nor
	// forgets codes.
	for _, lax := range []bool{false, true} {
		c.clock.move(time.Minute)
		c.issuer.Lax = lax
		victim, attacker := c.person(), c.person()
		stolen, err := url.Parse(victim.fromIssuer(victim.toIssuer()))
		if err != nil {
			t.Fatal(err)
		}
		own, err := url.Parse(attacker.fromIssuer(attacker.toIssuer()))
		if err != nil {
			t.Fatal(err)
		}
		q := url.Values{"state": {own.Query().Get("state")}, "code": {stolen.Query().Get("code")}}
		code, h, text := attacker.get(oidc.CallbackPath + "?" + q.Encode())
		notLoggedIn(t, "a stolen code", code, h, text, map[bool]string{false: "invalid_grant", true: "its nonce differs"}[lax])
	}
}

func attackWithForeignAnswer(t *testing.T, c *atIssuer) {
	attacker, victim, idle := c.person(), c.person(), c.person()
	answer := attacker.fromIssuer(attacker.toIssuer())
	own := victim.fromIssuer(victim.toIssuer())
	code, h, text := victim.get(answer) // the victim would work in the attacker's session
	notLoggedIn(t, "in a browser that has begun, too", code, h, text, "begin again")
	code, h, text = idle.get(answer)
	notLoggedIn(t, "in a browser that has not begun", code, h, text, "begin again")
	for _, path := range []string{"", "?state=", "?state=&code=x", "?code=x", "?error=access_denied"} {
		code, h, text := idle.get(oidc.CallbackPath + path)
		if value, _ := cookie(h, sessionCookie); code != http.StatusForbidden && code != http.StatusTooManyRequests || value != "" {
			t.Errorf("%q: %d %s", path, code, text)
		}
	}
	if code, _, text := victim.get(own); code != http.StatusOK {
		t.Errorf("the victim's own login: %d %s", code, text)
	}
}

func attackWithForeignBegin(t *testing.T, c *atIssuer) {
	p := c.person()
	form := p.form("/login")
	for what, change := range map[string]func(*http.Request){
		"Sec-Fetch-Site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"Origin":         func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		code, h, _ := p.do(http.MethodPost, "/login/oidc", url.Values{"form": {form}}, change)
		if code != http.StatusForbidden || h.Get("Refresh") != "" {
			t.Errorf("%s: got %d %v", what, code, h)
		}
	}
	if code, h, _ := p.post("/login/oidc", "x", nil); code != http.StatusForbidden || h.Get("Refresh") != "" {
		t.Errorf("without the form's token: %d %v", code, h)
	}
	if code, h, _ := p.get("/login/oidc?form=" + form); code != http.StatusSeeOther || h.Get("Location") != "/login" {
		t.Errorf("by GET: %d %v", code, h)
	}
}

func attackWithFixedSession(t *testing.T, c *atIssuer) {
	old := c.as(access.Viewer)
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	victim := c.person()
	answer := victim.fromIssuer(victim.toIssuer())
	victim.Jar.SetCookies(u, old.Jar.Cookies(u)) // the attacker's session
	_, h, _ := victim.get(answer)
	value, _ := cookie(h, sessionCookie)
	for _, one := range old.Jar.Cookies(u) {
		if one.Name == sessionCookie && (value == "" || one.Value == value) {
			t.Errorf("the browser has the session %q", value)
		}
	}
	if code, _, _ := old.get("/"); code != http.StatusSeeOther {
		t.Errorf("the attacker's session still works: %d", code)
	}
}

func attackWithRedirects(t *testing.T, c *atIssuer) {
	p := c.person()
	code, h, text := p.post("/login/oidc?next=https://evil.example&redirect_uri=https://evil.example", p.form("/login"), url.Values{"next": {"//evil.example"}, "redirect_uri": {"https://evil.example"}})
	address, ok := strings.CutPrefix(h.Get("Refresh"), "0; url=")
	if code != http.StatusOK || !ok || strings.Contains(address+text, "evil") || !strings.HasPrefix(address, c.issuer.URL()+"/authorize?") {
		t.Fatalf("begin: %d %v %s", code, h, text)
	}
	code, h, text = p.get(p.fromIssuer(address) + "&next=https://evil.example&redirect_uri=//evil.example")
	if code != http.StatusOK || h.Get("Refresh") != "0; url=/" || h.Get("Location") != "" || strings.Contains(text, "evil") {
		t.Errorf("got %d %v %s", code, h, text)
	}
}

func attackWithMixUp(t *testing.T, c *atIssuer) {
	for what, answer := range map[string]string{"names another issuer": "&iss=https://evil.example", "names nobody": "&iss="} {
		p := c.person()
		code, h, text := p.get(p.fromIssuer(p.toIssuer()) + answer)
		notLoggedIn(t, what, code, h, text, "of another issuer")
	}
	c.issuer.Describe = func(d map[string]any) { d["authorization_response_iss_parameter_supported"] = true }
	c.restartIssuer()
	p := c.person()
	answer := p.fromIssuer(p.toIssuer())
	code, h, text := p.get(answer)
	notLoggedIn(t, "of an issuer that always names itself", code, h, text, "of another issuer")
	c.clock.move(time.Minute)
	p = c.person()
	if code, _, text := p.get(p.fromIssuer(p.toIssuer()) + "&iss=" + url.QueryEscape(c.issuer.URL())); code != http.StatusOK {
		t.Errorf("the right one: %d %s", code, text)
	}
}

// restartIssuer lets the console forget the description of the issuer.
func (c *atIssuer) restartIssuer() { c.openID(oidc.Settings{ClientID: "console"}) }

func attackWithOldLogin(t *testing.T, c *atIssuer) {
	p := c.person()
	answer := p.fromIssuer(p.toIssuer())
	c.clock.move(oidc.FlowTime)
	code, h, text := p.get(answer)
	notLoggedIn(t, "after 10 minutes", code, h, text, "begin again")
}

func attackWithDescription(t *testing.T, c *atIssuer) {
	for name, change := range map[string]func(map[string]any){
		"another name":              func(d map[string]any) { d["issuer"] = "https://evil.example" },
		"an endpoint without TLS":   func(d map[string]any) { d["token_endpoint"] = "http://evil.example/token" },
		"keys without TLS":          func(d map[string]any) { d["jwks_uri"] = "http://evil.example/keys" },
		"a page that runs a script": func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" },
		"more than 1 MiB":           func(d map[string]any) { d["x"] = strings.Repeat("x", 2<<20) },
	} {
		c.issuer.Describe = change
		c.restartIssuer()
		p := c.person()
		code, h, text := p.post("/login/oidc", p.form("/login"), nil)
		if code != http.StatusBadGateway || h.Get("Refresh") != "" || !strings.Contains(text, "Log in with a token") {
			t.Errorf("%s: %d %v %s", name, code, h, text)
		}
	}
}

// attackWithSlowIssuer holds the issuer's answers back. People with a token log in meanwhile, and everybody gets an answer.
func attackWithSlowIssuer(t *testing.T, c *atIssuer) {
	asked, release := make(chan struct{}, 99), make(chan struct{})
	c.issuer.Describe = func(map[string]any) { asked <- struct{}{}; <-release }
	var all sync.WaitGroup
	for range 4 {
		p := c.person()
		form := p.form("/login")
		all.Go(func() {
			if code, _, text := p.post("/login/oidc", form, nil); code != http.StatusOK && code != http.StatusBadGateway {
				t.Errorf("got %d %s", code, text)
			}
		})
	}
	<-asked
	c.as(access.Viewer)
	close(release)
	all.Wait()
}

func attackWithManyLogins(t *testing.T, c *atIssuer) {
	p := c.person()
	codes := map[int]int{}
	for range 20 {
		code, _, _ := p.post("/login/oidc", p.form("/login"), nil)
		codes[code]++
	}
	if codes[http.StatusOK] > 8 || codes[http.StatusTooManyRequests] < 12 { // a slow machine gets some back
		t.Errorf("got %v", codes)
	}
	c.as(access.Viewer)
}
