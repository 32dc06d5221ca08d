package access_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/console/access"
)

// clock is a clock that tests move.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func TestTokenIsValidForOneLogin(t *testing.T) {
	c := newClock()
	tokens := access.Tokens{Dir: t.TempDir(), Now: c.read}
	text, _, err := tokens.Create("jane", access.Operator)
	if err != nil {
		t.Fatal(err)
	}
	var logins atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := tokens.Redeem(text); err == nil && got.Name == "jane" && got.Role == access.Operator {
				logins.Add(1)
			} else if !errors.Is(err, access.ErrRefused) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	if logins.Load() != 1 {
		t.Errorf("%d of 50 logins with one token succeeded", logins.Load())
	}
}

func TestTokenEnds(t *testing.T) {
	c := newClock()
	tokens := access.Tokens{Dir: t.TempDir(), Now: c.read}
	for wait, valid := range map[time.Duration]bool{access.TokenTime - time.Second: true, access.TokenTime: false} {
		text, _, err := tokens.Create("jane", access.Viewer)
		if err != nil {
			t.Fatal(err)
		}
		before := c.now
		c.now = c.now.Add(wait)
		if _, err := tokens.Redeem(text); (err == nil) != valid {
			t.Errorf("after %s: %v", wait, err)
		}
		c.now = before
	}
}

func TestSecretsAreNotKept(t *testing.T) {
	c, dir := newClock(), t.TempDir()
	text, token, err := access.Tokens{Dir: filepath.Join(dir, "tokens"), Now: c.read}.Create("jane", access.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	secret, session, err := access.Sessions{Dir: filepath.Join(dir, "sessions"), Now: c.read}.Begin(token.Person, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*/*"))
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, hidden := range []string{text, secret} {
			if strings.Contains(name+string(content), hidden) {
				t.Errorf("%s has a secret: %s", name, content)
			}
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if strings.Contains(secret, session.ID) || strings.Contains(access.FormToken(secret), secret) {
		t.Error("the ID or the form's token tells the secret")
	}
}

func TestNamesForTheAuditAreChecked(t *testing.T) {
	tokens := access.Tokens{Dir: t.TempDir(), Now: time.Now}
	for _, name := range []string{"", "a b", "a\nb", "<b>", "é", strings.Repeat("a", 65)} {
		if _, _, err := tokens.Create(name, access.Viewer); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

func TestTokensAreLimited(t *testing.T) {
	c := newClock()
	tokens := access.Tokens{Dir: t.TempDir(), Now: c.read}
	create := func() error { _, _, err := tokens.Create("jane", access.Viewer); return err }
	for n := range 64 {
		if err := create(); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := create(); err == nil {
		t.Error("a 65th token is made")
	}
	c.now = c.now.Add(access.TokenTime)
	if err := create(); err != nil {
		t.Errorf("after the others have ended: %v", err)
	}
}

func TestSessionEnds(t *testing.T) {
	for behaviour, row := range map[string]struct {
		pause time.Duration // between requests
		times int
		valid bool
	}{
		"in use":                      {29 * time.Minute, 10, true},
		"idle":                        {access.IdleTime, 1, false},
		"in use for longer than 12 h": {29 * time.Minute, 25, false},
	} {
		t.Run(behaviour, func(t *testing.T) {
			c := newClock()
			sessions := access.Sessions{Dir: t.TempDir(), Now: c.read}
			secret, _, err := sessions.Begin(access.Person{Name: "jane", Role: access.Viewer}, "192.0.2.1")
			if err != nil {
				t.Fatal(err)
			}
			for range row.times {
				c.now = c.now.Add(row.pause)
				_, err = sessions.Find(secret)
			}
			if (err == nil) != row.valid || err != nil && !errors.Is(err, access.ErrNoSession) {
				t.Errorf("got %v", err)
			}
			if left, err := sessions.List(); err != nil || (len(left) == 1) != row.valid {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestClockSetBackEndsTokensAndSessions(t *testing.T) {
	c, dir := newClock(), t.TempDir()
	tokens, sessions := access.Tokens{Dir: filepath.Join(dir, "tokens"), Now: c.read}, access.Sessions{Dir: filepath.Join(dir, "sessions"), Now: c.read}
	text, token, err := tokens.Create("jane", access.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := sessions.Begin(token.Person, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(-24 * time.Hour)
	if _, err := tokens.Redeem(text); !errors.Is(err, access.ErrRefused) {
		t.Errorf("the token: %v", err)
	}
	if _, err := sessions.Find(secret); !errors.Is(err, access.ErrNoSession) {
		t.Errorf("the session: %v", err)
	}
}

func TestDamagedSessionLocksNobodyOut(t *testing.T) {
	c, dir := newClock(), t.TempDir()
	sessions := access.Sessions{Dir: dir, Now: c.read}
	if err := os.WriteFile(filepath.Join(dir, strings.Repeat("0", 64)+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret, _, err := sessions.Begin(access.Person{Name: "jane", Role: access.Viewer}, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.Find(secret); err != nil {
		t.Error(err)
	}
	if all, err := sessions.List(); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
}

func TestSessionIsRevoked(t *testing.T) {
	c := newClock()
	sessions := access.Sessions{Dir: t.TempDir(), Now: c.read}
	one, first, err := sessions.Begin(access.Person{Name: "jane", Role: access.Viewer}, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := sessions.Begin(access.Person{Name: "joe", Role: access.Viewer}, "192.0.2.2")
	if err != nil {
		t.Fatal(err)
	}
	ended, err := sessions.Revoke(func(s access.Session) bool { return s.ID == first.ID })
	if err != nil || len(ended) != 1 || ended[0].Name != "jane" {
		t.Errorf("ended %v, %v", ended, err)
	}
	if _, err := sessions.Find(one); !errors.Is(err, access.ErrNoSession) {
		t.Errorf("the revoked session: %v", err)
	}
	if _, err := sessions.Find(two); err != nil {
		t.Errorf("another session: %v", err)
	}
}

func TestOnePersonDoesNotTakeAllSessions(t *testing.T) {
	c := newClock()
	sessions := access.Sessions{Dir: t.TempDir(), Now: c.read}
	begin := func(p access.Person) string {
		t.Helper()
		c.now = c.now.Add(time.Second)
		p.Role = access.Viewer
		secret, _, err := sessions.Begin(p, "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	others := []string{begin(access.Person{Name: "joe"}), begin(access.Person{Name: "jane", Issuer: "https://login.example", Subject: "1"})}
	var own []string
	for range 20 {
		own = append(own, begin(access.Person{Name: "jane"}))
	}
	for n, secret := range append(others, own...) {
		_, err := sessions.Find(secret)
		if ended := n >= len(others) && n < len(others)+len(own)-8; ended != errors.Is(err, access.ErrNoSession) || !ended && err != nil {
			t.Errorf("session %d: %v", n, err)
		}
	}
	for n := range 10 { // the issuer calls the person otherwise each time
		begin(access.Person{Name: fmt.Sprint("jane", n), Issuer: "https://login.example", Subject: "1"})
	}
	if all, err := sessions.List(); err != nil || len(all) != 1+8+8 {
		t.Errorf("%d sessions, %v", len(all), err)
	}
}

func TestSessionsAreLimited(t *testing.T) {
	c := newClock()
	sessions := access.Sessions{Dir: t.TempDir(), Now: c.read}
	begin := func(name string) error {
		_, _, err := sessions.Begin(access.Person{Name: name, Role: access.Viewer}, "192.0.2.1")
		return err
	}
	for n := range 256 {
		if err := begin(fmt.Sprint("p", n)); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := sessions.Room(); err == nil || begin("another") == nil {
		t.Errorf("there is room for a 257th: %v", err)
	}
	c.now = c.now.Add(access.IdleTime)
	if err := errors.Join(sessions.Room(), begin("another")); err != nil {
		t.Error(err)
	}
}

func TestAttemptsAreLimited(t *testing.T) {
	c := newClock()
	attempts := access.NewAttempts(c.read)
	tries := func(client string, n int) (allowed int) {
		for range n {
			if attempts.Allow(client) {
				allowed++
			}
		}
		return allowed
	}
	if got := tries("192.0.2.1", 100); got != 5 {
		t.Errorf("%d of 100 logins of one client are allowed", got)
	}
	if got := tries("192.0.2.2", 1); got != 1 {
		t.Error("another client is kept out")
	}
	c.now = c.now.Add(10 * time.Second)
	if got := tries("192.0.2.1", 10); got != 1 {
		t.Errorf("after 10 seconds, %d", got)
	}
	all := 0
	for n := range 5000 {
		all += tries("client "+string(rune(n)), 1)
	}
	if all > 60 {
		t.Errorf("%d logins of 5000 clients are allowed at once", all)
	}
}

// TestPageHasTableOfRights compares docs/security.md with the table.
func TestPageHasTableOfRights(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "<!-- console -->\n")
	table, _, ended := strings.Cut(table, "<!-- end of console -->")
	if !ok || !ended {
		t.Fatal("the page has no table of the console")
	}
	want := "| right | viewer | operator | administrator |\n|---|---|---|---|\n"
	for _, right := range access.Rights() {
		want += "| " + string(right) + " |"
		for _, role := range access.Roles() {
			want += map[bool]string{true: " yes |", false: " – |"}[role.Has(right)]
		}
		want += "\n"
	}
	if table != want {
		t.Errorf("the page has\n%s\nwant\n%s", table, want)
	}
}
