// Package oidc logs people in to the console of a node at an OpenID Connect issuer, by the authorization code flow with PKCE.
//
// Issuers, their CAs and claims, and the groups that get a role are kubernetes.oidc of the Installer, which the agent keeps in a file of each
// control plane. The package knows no pages. It keeps no token of an issuer: from an ID token it takes who somebody is, and which groups
// the person is in. It takes ID tokens from the issuer's token endpoint only, never from a browser.
package oidc

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/spec"
)

// Settings configure the issuer of a console. The zero value means no issuer.
type Settings struct {
	ClientID string `json:"clientID,omitempty"` // of the console, at the issuer
	// ClientSecret is a file with the secret of the client. Without it, the console is a public client.
	ClientSecret string   `json:"clientSecret,omitempty"`
	Issuer       string   `json:"issuer,omitempty"` // URL; may be "" if kubernetes.oidc has one issuer only
	URL          string   `json:"url,omitempty"`    // of the console, such as https://console.example:6446, to which the issuer sends people back
	Scopes       []string `json:"scopes,omitempty"` // besides openid and those of standardScopes that the issuer has
}

// CallbackPath is the path to which an issuer sends people back.
const CallbackPath = "/login/oidc/callback"

// RedirectURI is what the issuer has to know of the client, exactly.
func (s Settings) RedirectURI() string { return strings.TrimSuffix(s.URL, "/") + CallbackPath }

// Host is the host of the console's URL, with its port.
func (s Settings) Host() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Hostname is the name in the console's URL, which browsers use then.
func (s Settings) Hostname() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Check finds settings with which nobody can log in.
func (s Settings) Check() error {
	if s.ClientID == "" {
		if s.ClientSecret+s.Issuer+s.URL != "" || len(s.Scopes) > 0 {
			return errors.New("--oidc-client-id is missing; the other flags of --oidc need it")
		}
		return nil
	}
	if s.ClientSecret != "" && !filepath.IsAbs(s.ClientSecret) {
		return fmt.Errorf("--oidc-client-secret must be a path that begins with /, not %q", s.ClientSecret)
	}
	u, err := url.Parse(s.URL)
	if s.URL != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || strings.ContainsAny(s.URL, "?#")) {
		return fmt.Errorf("--oidc-url is %q; give the address of the console, such as https://console.example.com:6446", s.URL)
	}
	for _, scope := range s.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \t\n\"\\") {
			return fmt.Errorf("--oidc-scope: %q is not a scope", scope)
		}
	}
	return nil
}

// ErrNoLogin means that the cluster has no issuers.
var ErrNoLogin = errors.New("the cluster has no issuer; give its Installer kubernetes.oidc, run 'sealift install' with it, and try again after a minute")

// login reads kubernetes.oidc from the file of the agent, and chooses the issuer.
func (s Settings) login(file string) (*spec.OIDC, spec.Issuer, error) {
	text, err := regularfile.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Issuer{}, ErrNoLogin
	}
	if err != nil {
		return nil, spec.Issuer{}, err
	}
	o, err := spec.ParseOIDC(text)
	if err != nil {
		return nil, spec.Issuer{}, fmt.Errorf("%s: %w", file, err)
	}
	if o == nil {
		return nil, spec.Issuer{}, ErrNoLogin
	}
	var urls []string
	for _, i := range o.Issuers {
		if i.URL == s.Issuer || s.Issuer == "" && len(o.Issuers) == 1 {
			return o, i, nil
		}
		urls = append(urls, i.URL)
	}
	if s.Issuer == "" {
		return nil, spec.Issuer{}, fmt.Errorf("the cluster has several issuers; choose one with 'sealift-console on --oidc-issuer URL': %s", strings.Join(urls, ", "))
	}
	return nil, spec.Issuer{}, fmt.Errorf("the cluster has no issuer %s; choose one with 'sealift-console on --oidc-issuer URL': %s", s.Issuer, strings.Join(urls, ", "))
}

// CheckLogin finds settings that do not fit the issuers of the cluster, which file has.
func (s Settings) CheckLogin(file string) error {
	_, _, err := s.login(file)
	return err
}
