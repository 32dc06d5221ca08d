package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/internal/transfer"
)

// newClient returns a client for one fetch.
func newClient(access Access) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: access.Insecure} //nolint:gosec // the user asks for it
	if len(access.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(access.CA) {
			return nil, errors.New("the given certificate authority has no certificate in PEM")
		}
		trust.RootCAs = pool
	}
	return &http.Client{Transport: transfer.Bounds{}.Over(encrypted{
		plain: slices.Contains(access.Schemes, "http"),
		next: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSClientConfig: trust, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
	})}, nil
}

// encrypted refuses requests without TLS, including those of a redirection or a registry.
type encrypted struct {
	plain bool
	next  *http.Transport
}

func (e encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !e.plain {
		return nil, fmt.Errorf("%s is not encrypted: http is not allowed here", r.URL.Host)
	}
	return e.next.RoundTrip(r)
}

func (e encrypted) CloseIdleConnections() { e.next.CloseIdleConnections() }

// get reads a file of at most limit bytes. The password goes along only to its host.
func get(ctx context.Context, client *http.Client, access Access, address string, limit int64) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.URL = transfer.EscapePlus(r.URL)
	known, err := credentials(access.Credentials, r.URL.Host)
	if err != nil {
		return nil, err
	}
	switch {
	case known.Username != "":
		r.SetBasicAuth(known.Username, known.Password)
	case known.RegistryToken != "":
		r.Header.Set("Authorization", "Bearer "+known.RegistryToken)
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", r.URL.Redacted(), response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", r.URL.Redacted(), limit)
	}
	return content, err
}

// credentials finds those of a host in a docker config file: those under its own name, or else those under its address with a path, such as
// https://host/v1/. Helper programs are never run.
func credentials(file []byte, host string) (authn.AuthConfig, error) {
	if len(file) == 0 {
		return authn.AuthConfig{}, nil
	}
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(file, &config); err != nil {
		return authn.AuthConfig{}, errors.New("the credentials are not a docker config file in JSON")
	}
	const none = 3
	best, rank := "", none
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		at, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://"), "/")
		if registry(at) != registry(host) {
			continue
		}
		this := 2
		switch {
		case key == host:
			this = 0
		case path == "":
			this = 1
		}
		if this < rank {
			best, rank = key, this
		}
	}
	if rank == none {
		return authn.AuthConfig{}, nil
	}
	found := config.Auths[best]
	if found.Auth != "" && found.Username == "" {
		decoded, err := base64.StdEncoding.DecodeString(found.Auth)
		user, password, both := strings.Cut(string(decoded), ":")
		if err != nil || !both {
			return authn.AuthConfig{}, fmt.Errorf("the credentials of %s have an auth that is not base64 of user:password", best)
		}
		found.Username, found.Password, found.Auth = user, password, ""
	}
	return found, nil
}

// registry returns the one name of a registry. Docker Hub has several.
func registry(host string) string {
	host = strings.ToLower(host)
	if host == "docker.io" || host == "registry-1.docker.io" {
		return name.DefaultRegistry
	}
	return host
}
