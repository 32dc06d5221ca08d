// Package ociurl parses the URLs of registries and of repositories in them: oci://harbor.corp/mirror. It never sends a request.
package ociurl

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/distribution/reference"
)

// Scheme begins the URL of a registry.
const Scheme = "oci://"

// URL is a registry, and a path in it.
type URL struct {
	Host  string // host or host:port
	Path  string // a repository or the beginning of some, without slashes at its ends; may be empty
	Plain bool   // HTTP without TLS
}

// Parse reads a URL. A registry on loopback is spoken to without TLS, and any other one only if plain is set.
func Parse(text string, plain bool) (URL, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return URL{}, fmt.Errorf("%q is not the URL of a registry such as oci://harbor.corp/mirror", text)
	}
	if strings.ContainsAny(rest, "@?#") {
		return URL{}, errors.New("the URL of a registry has no user, query or fragment; log in with 'docker login' or 'podman login'")
	}
	host, path, _ := strings.Cut(strings.Trim(rest, "/"), "/")
	if _, err := reference.ParseNamed(host + "/" + strings.TrimPrefix(path+"/x", "/")); err != nil {
		return URL{}, fmt.Errorf("%q is not the URL of a registry such as oci://harbor.corp/mirror: %w", text, err)
	}
	only := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		only = h
	}
	ip := net.ParseIP(strings.Trim(only, "[]"))
	return URL{Host: host, Path: path, Plain: plain || only == "localhost" || ip != nil && ip.IsLoopback()}, nil
}

// Base is the address of the registry's server, such as https://harbor.corp.
func (u URL) Base() string {
	if u.Plain {
		return "http://" + u.Host
	}
	return "https://" + u.Host
}

// String returns the URL as text.
func (u URL) String() string { return Scheme + strings.TrimSuffix(u.Host+"/"+u.Path, "/") }
