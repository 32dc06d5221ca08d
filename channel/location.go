package channel

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// ErrNoChannel is the answer to a command that names no index (K-31).
var ErrNoChannel = errors.New("at least one channel URL is required; name it, or a file with -f")

// ParseChannel reads a CHANNEL argument: a URL or an absolute path. kOps takes a bare name for one of its own tree on the
// internet, which behind an air gap is of no use (K-31).
func ParseChannel(name string) (*url.URL, error) {
	if filepath.IsAbs(name) {
		return ParseFile(name)
	}
	u, err := url.Parse(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("channel %q is not a URL: %w", name, err)
	case u.IsAbs():
		return u, knownScheme(u)
	case strings.Contains(name, "/"):
		return nil, fmt.Errorf("channel %q: Channel format not recognized (did you mean to use `-f` to specify a local file?)", name)
	}
	return nil, fmt.Errorf("channel %q is a name, and names of channels stand for files on the internet: give its URL, or a local file with -f", name)
}

// ParseFile reads a -f argument: a path, or a URL.
func ParseFile(name string) (*url.URL, error) {
	if u, err := url.Parse(name); err == nil && u.IsAbs() {
		return u, knownScheme(u)
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", name, err)
	}
	if strings.HasSuffix(name, "/") {
		abs += "/"
	}
	return &url.URL{Path: abs}, nil
}

func knownScheme(u *url.URL) error {
	switch u.Scheme {
	case "file":
		if u.Host != "" {
			return fmt.Errorf("location %q names a host; a file has three slashes: file:///%s%s", u.Redacted(), u.Host, u.Path)
		}
		return nil
	case "", "http", "https", "s3":
		return nil
	}
	return fmt.Errorf("location %q: scheme %q is not supported; use a path, file://, http://, https:// or s3://", u.Redacted(), u.Scheme)
}

// isLocal says whether a location is on this machine's disk.
func isLocal(u *url.URL) bool { return u.Scheme == "" || u.Scheme == "file" }
