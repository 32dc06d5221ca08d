package op

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"golang.org/x/oauth2"
)

// Token logs a user in on the issuer's page, as the plugins of kubectl do, and returns the ID token.
func (i Issuer) Token(t testing.TB, u User) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: i.transport, Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), i.redirectURI+"?") {
			return http.ErrUseLastResponse // nobody serves it
		}
		return nil
	}}
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, client)
	config := oauth2.Config{ClientID: i.client, RedirectURL: i.redirectURI, Scopes: []string{oidc.ScopeOpenID, oidc.ScopeProfile},
		Endpoint: oauth2.Endpoint{AuthURL: i.URL + "/auth", TokenURL: i.URL + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams}}
	verifier := oauth2.GenerateVerifier()
	page, _ := do(ctx, t, client, http.MethodGet, config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)), nil)
	_, location := do(ctx, t, client, http.MethodPost, i.URL+page.Path, url.Values{"username": {u.Name}, "password": {u.Password}, "id": {page.Query().Get("authRequestID")}})
	back, err := url.Parse(location)
	if err != nil || location == "" {
		t.Fatalf("the issuer does not log %s in: it sends the browser to %q, %v", u.Name, location, err)
	}
	token, err := config.Exchange(ctx, back.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatalf("log in as %s: %v", u.Name, err)
	}
	id, ok := token.Extra("id_token").(string)
	if !ok {
		t.Fatalf("the issuer has no ID token for %s", u.Name)
	}
	return id
}

// do sends a request, and returns the address of the page that it ends on, and where that sends the browser, if anywhere.
func do(ctx context.Context, t testing.TB, client *http.Client, method, address string, form url.Values) (page *url.URL, location string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.Request.URL, answer.Header.Get("Location")
}
