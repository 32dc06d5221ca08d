package oidc

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/spec"
)

func TestSettingsAreChecked(t *testing.T) {
	for want, s := range map[string]Settings{
		"":                     {},
		"--oidc-client-id":     {Issuer: "https://login.example.org"},
		"--oidc-client-secret": {ClientID: "console", ClientSecret: "secret"},
		"--oidc-scope":         {ClientID: "console", Scopes: []string{"a b"}},
	} {
		if err := s.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", s, err, want)
		}
	}
	for address, valid := range map[string]bool{
		"": true, "https://console.example:6446": true, "https://console.example/": true, "https://[::1]:6446": true,
		"http://console.example": false, "console.example:6446": false, "https://": false, "https://a@console.example": false, "https://console.example/path": false,
		"https://console.example?": false, "https://console.example#": false,
	} {
		if err := (Settings{ClientID: "console", URL: address}).Check(); (err == nil) != valid {
			t.Errorf("%q: %v", address, err)
		}
	}
	if got := (Settings{URL: "https://console.example:6446/"}).RedirectURI(); got != "https://console.example:6446/login/oidc/callback" {
		t.Errorf("redirect URI %s", got)
	}
}

// keep writes kubernetes.oidc, and returns its file.
func keep(t *testing.T, o *spec.OIDC) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "login.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func issuerAt(address, ca string) spec.Issuer {
	return spec.Issuer{URL: address, Audiences: []string{"k"}, CACertificate: ca, Claims: spec.Claims{Username: "sub", Groups: "groups"}}
}

func TestIssuerIsChosen(t *testing.T) {
	two := keep(t, &spec.OIDC{Issuers: []spec.Issuer{issuerAt("https://a.example", ""), issuerAt("https://b.example", "")}})
	one := keep(t, &spec.OIDC{Issuers: []spec.Issuer{issuerAt("https://a.example", "")}})
	damaged := filepath.Join(t.TempDir(), "login.json")
	if err := os.WriteFile(damaged, []byte(`{"issuers": [{}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ file, issuer, says string }{
		"the only one":         {one, "", ""},
		"that one":             {two, "https://b.example", ""},
		"one of two":           {two, "", "choose one with 'sealift-console on --oidc-issuer URL': https://a.example, https://b.example"},
		"another one":          {one, "https://c.example", "has no issuer https://c.example"},
		"none in the cluster":  {keep(t, nil), "", "give its Installer kubernetes.oidc"},
		"no file of the agent": {filepath.Join(t.TempDir(), "none"), "", "give its Installer kubernetes.oidc"},
		"a damaged file":       {damaged, "", "kubernetes.oidc.issuers[0].url"},
	} {
		err := Settings{ClientID: "console", Issuer: row.issuer}.CheckLogin(row.file)
		if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIssuerRevealsNoClusterNames uses an issuer without prefixes.
func TestIssuerRevealsNoClusterNames(t *testing.T) {
	for _, claims := range []map[string]any{
		{"sub": "vera", "groups": []any{"staff", "system:masters"}}, {"sub": "vera", "groups": "sealift:nodes"}, {"sub": "system:admin"}, {"sub": "sealift:control-plane:a", "groups": []any{"staff"}},
		{"sub": "vera", "groups": []any{"staff", "kubeadm:cluster-admins"}},
	} {
		if name, groups, err := names(issuerAt("https://a.example", ""), claims); err == nil {
			t.Errorf("%v: %s of %v", claims, name, groups)
		}
	}
}

// FuzzNames shows that no claims give a name or a group of the cluster, or a name that changes a terminal.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{`{"sub":"vera","groups":["staff"]}`, `{"sub":"","groups":7}`, `{"sub":"a\u001b","groups":[null]}`, `{"sub":"system:x"}`, `{"email":"a","email_verified":"true"}`} {
		f.Add(seed, "sub", "")
		f.Add(seed, "email", "oidc:")
	}
	f.Fuzz(func(t *testing.T, text, claim, prefix string) {
		var claims map[string]any
		if json.Unmarshal([]byte(text), &claims) != nil {
			t.Skip()
		}
		name, groups, err := names(spec.Issuer{Claims: spec.Claims{Username: claim, UsernamePrefix: prefix, Groups: "groups", GroupsPrefix: prefix}}, claims)
		if err != nil {
			return
		}
		own, ok := strings.CutPrefix(name, prefix)
		if !ok || !plain(own) || spec.ReservedName(name) {
			t.Errorf("the name is %q", name)
		}
		for _, group := range groups {
			if !strings.HasPrefix(group, prefix) || spec.ReservedName(group) {
				t.Errorf("a group is %q", group)
			}
		}
	})
}

// startServer serves a handler as an issuer, and returns a client for it.
func startServer(t *testing.T, handler http.HandlerFunc) (*Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	file := keep(t, &spec.OIDC{Issuers: []spec.Issuer{issuerAt(server.URL, ca)}})
	return New(Settings{ClientID: "console", URL: "https://console.example"}, file, time.Now), server
}

// TestSilentIssuerBlocksNobody uses an issuer that answers nothing. Whoever waits for it stops waiting, and so do those behind them.
func TestSilentIssuerBlocksNobody(t *testing.T) {
	end := make(chan struct{})
	c, _ := startServer(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-end:
		}
	})
	defer close(end)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := c.Begin(ctx); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("it says %v", err)
	}
	for range maxBusy {
		c.busy <- struct{}{}
	}
	if _, _, err := c.Begin(ctx); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "too slow") {
		t.Errorf("behind the others, it says %v", err)
	}
	if limit := newHTTPClient("").Timeout; limit <= 0 || limit > loginTime {
		t.Errorf("a request may take %s", limit)
	}
}

// TestRedirectOfIssuerIsNotFollowed: an issuer must not make the console ask other hosts.
func TestRedirectOfIssuerIsNotFollowed(t *testing.T) {
	var asked atomic.Int64
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inside.Close)
	c, _ := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
	})
	if _, _, err := c.Begin(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "307") {
		t.Errorf("it says %v", err)
	}
	if asked.Load() > 0 {
		t.Error("the console asked another host")
	}
}

func TestLoginsThatHaveBegunAreBounded(t *testing.T) {
	now := time.Now()
	c := New(Settings{}, "", func() time.Time { return now })
	for n := range maxFlows {
		if !c.keep(string(rune(n)), flow{began: now}) {
			t.Fatalf("no room for login %d", n)
		}
	}
	if c.keep("one more", flow{began: now}) {
		t.Errorf("%d logins have begun", len(c.flows))
	}
	now = now.Add(FlowTime)
	if !c.keep("one more", flow{began: now}) || len(c.flows) != 1 {
		t.Errorf("after the others have ended, %d are kept", len(c.flows))
	}
	if _, err := c.Finish(t.Context(), "one more", url.Values{"state": {""}, "code": {"x"}}); !errors.Is(err, ErrNoFlow) {
		t.Errorf("without a state: %v", err)
	}
}

func TestHighestRoleWins(t *testing.T) {
	o := &spec.OIDC{Admins: []string{"a"}, Operators: []string{"o", "both"}, Viewers: []string{"both", "v"}}
	for groups, want := range map[string]access.Role{"v": access.Viewer, "both": access.Operator, "v o": access.Operator, "v a o": access.Administrator, "x": "", "": ""} {
		role, group := roleOf(o, strings.Fields(groups))
		if role != want || (group == "") != (want == "") {
			t.Errorf("%q: %s by %q, want %s", groups, role, group, want)
		}
	}
}
