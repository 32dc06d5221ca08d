package chart

import (
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// authorized adds the password that docker login keeps for a host to requests over TLS. A request that has one already, as
// from the URL of a mirror, stays as it is.
type authorized struct {
	next     http.RoundTripper
	keychain authn.Keychain
}

// RoundTrip sends a request.
func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" || request.Header.Get("Authorization") != "" {
		return a.next.RoundTrip(request)
	}
	host, err := name.NewRegistry(request.URL.Host)
	if err != nil {
		return a.next.RoundTrip(request)
	}
	credentials, err := authn.Resolve(request.Context(), a.keychain, host)
	if err != nil {
		return nil, err
	}
	config, err := authn.Authorization(request.Context(), credentials)
	if err != nil {
		return nil, err
	}
	if config.Username != "" {
		request = request.Clone(request.Context())
		request.SetBasicAuth(config.Username, config.Password)
	}
	return a.next.RoundTrip(request)
}
