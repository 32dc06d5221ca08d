package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/spec"
)

// The limits of requests to an issuer.
const (
	requestTime = 10 * time.Second // of one request
	loginTime   = 20 * time.Second // of all requests of one step
	maxDocument = 1 << 20          // bytes of an answer
	maxToken    = 64 << 10         // bytes of an ID token
	// refreshTime is how long a description and its keys are used. Unknown keys are fetched before that. A browser that is sent to an issuer
	// which is away shows a blank page, so it is asked again soon.
	refreshTime = time.Minute
	// skew is how far the clocks of the issuer and of the host may differ.
	skew = time.Minute
)

// algorithms are those with which an ID token may be signed: the ones that API servers accept. All have a public key.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512}
}

// standardScopes are requested of an issuer that has them: claims of people, such as email, depend on them.
func standardScopes() []string { return []string{"profile", "email", "groups"} }

// provider is an issuer that has described itself.
type provider struct {
	of       spec.Issuer
	read     time.Time
	client   *http.Client
	config   oauth2.Config
	verifier *oidc.IDTokenVerifier
	// namesItself reports whether its answers have the parameter iss (RFC 9207).
	namesItself bool
}

// discover asks an issuer for its description.
func (c *Client) discover(ctx context.Context, i spec.Issuer) (*provider, error) {
	p := &provider{of: i, read: c.Now(), client: newHTTPClient(i.CACertificate)}
	ctx = oidc.ClientContext(ctx, p.client)
	found, err := oidc.NewProvider(ctx, i.URL)
	if err != nil {
		return nil, err
	}
	var is struct {
		Keys        string   `json:"jwks_uri"`
		Scopes      []string `json:"scopes_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
		Clients     []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&is); err != nil {
		return nil, err
	}
	p.namesItself = is.NamesItself
	endpoint := found.Endpoint()
	for name, at := range map[string]string{"authorization_endpoint": endpoint.AuthURL, "token_endpoint": endpoint.TokenURL, "jwks_uri": is.Keys} {
		if u, err := url.Parse(at); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("its %s is %q, which is not an https URL", name, at)
		}
	}
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if c.ClientSecret == "" || !slices.Contains(is.Clients, "client_secret_basic") && slices.Contains(is.Clients, "client_secret_post") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	p.config = oauth2.Config{ClientID: c.ClientID, Endpoint: endpoint, RedirectURL: c.RedirectURI(), Scopes: []string{oidc.ScopeOpenID}}
	for _, scope := range append(standardScopes(), c.Scopes...) {
		if (slices.Contains(is.Scopes, scope) || slices.Contains(c.Scopes, scope)) && !slices.Contains(p.config.Scopes, scope) {
			p.config.Scopes = append(p.config.Scopes, scope)
		}
	}
	p.verifier = found.VerifierContext(ctx, &oidc.Config{ClientID: c.ClientID, SupportedSigningAlgs: algorithms(), Now: func() time.Time { return c.Now().Add(-skew) }})
	return p, nil
}

// newHTTPClient returns a client that trusts one CA, or those of the host if it is "". It uses no proxy, as the API server of the node does
// not either, follows no redirects, and reads a bounded answer in a bounded time.
func newHTTPClient(ca string) *http.Client {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		settings.RootCAs = x509.NewCertPool()
		settings.RootCAs.AppendCertsFromPEM([]byte(ca))
	}
	return &http.Client{
		Timeout:       requestTime,
		Transport:     bounded{&http.Transport{TLSClientConfig: settings, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded cuts answers off that are too long.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &boundedBody{answer.Body, maxDocument}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

var errTooLong = errors.New("the answer is longer than 1 MiB")

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLong
	}
	return n, err
}

// exchange gets the ID token for a code.
func (c *Client) exchange(ctx context.Context, p *provider, code, verifier string) (*oidc.IDToken, error) {
	config := p.config
	if c.ClientSecret != "" {
		secret, err := regularfile.ReadFile(c.ClientSecret)
		if err != nil {
			return nil, fmt.Errorf("%w: the secret of the client: %w", ErrUnavailable, err)
		}
		config.ClientSecret = strings.TrimSpace(string(secret))
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	var answered *oauth2.RetrieveError
	switch {
	case errors.As(err, &answered) && answered.Response.StatusCode < http.StatusInternalServerError:
		return nil, refused("the issuer does not accept the code or the client: %s %s", answered.Response.Status, shown(answered.ErrorCode))
	case err != nil:
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, shown(err.Error()))
	}
	text, _ := tokens.Extra("id_token").(string)
	switch {
	case text == "":
		return nil, refused("the issuer sent no ID token")
	case len(text) > maxToken:
		return nil, refused("the ID token has %d bytes, more than %d; have the issuer send fewer groups", len(text), maxToken)
	}
	token, err := p.verifier.Verify(ctx, text)
	if err != nil {
		return nil, refused("the ID token is not valid: %s", shown(err.Error()))
	}
	return token, nil
}

// maxShown is how much of a text of an issuer is shown, in bytes.
const maxShown = 300

// shown returns a text of an issuer as part of an error.
func shown(text string) string {
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + " […]"
	}
	return text
}
