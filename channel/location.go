package channel

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNoChannel is the answer to a command that names no index (K-31).
var ErrNoChannel = errors.New("at least one channel URL is required; name it, or a file with -f")

// ParseChannel reads a CHANNEL argument: a URL or an absolute path. kOps resolves a bare name in its own tree on the internet,
// which is useless behind an air gap (K-31).
func ParseChannel(name string) (*url.URL, error) {
	if filepath.IsAbs(name) {
		return ParseFile(name)
	}
	u, err := url.Parse(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("channel %q is not a URL: %w", shown(name), withoutURL(err))
	case u.IsAbs():
		return u, knownScheme(u)
	case strings.Contains(name, "/"):
		return nil, fmt.Errorf("channel %q: Channel format not recognized (did you mean to use `-f` to specify a local file?)", shown(name))
	}
	return nil, fmt.Errorf("channel %q is a name, which stands for a file on the internet: give its URL, or a local file with -f", shown(name))
}

// ParseFile reads a -f argument: a path, or a URL.
func ParseFile(name string) (*url.URL, error) {
	u, err := url.Parse(name)
	switch {
	case err == nil && u.IsAbs():
		return u, knownScheme(u)
	case err != nil && strings.Contains(name, "://"):
		return nil, fmt.Errorf("file %q is not a URL: %w", shown(name), withoutURL(err))
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
			return fmt.Errorf("location %q names a host; a file has three slashes: file:///%s%s", redacted(u), u.Host, u.Path)
		}
		return nil
	case "", "http", "https", "s3":
		return nil
	}
	return fmt.Errorf("location %q: scheme %q is not supported; use a path, file://, http://, https:// or s3://", redacted(u), u.Scheme)
}

// redacted leaves out what may be secret in a URL: user and password, for a token may be either, and the query of a signed
// address.
func redacted(u *url.URL) string {
	shown := *u
	if u.User != nil {
		shown.User = url.User("xxxxx")
	}
	shown.RawQuery, shown.Fragment, shown.RawFragment = "", "", ""
	return shown.String()
}

// userinfo finds the user and the password in a text that may be no URL.
var userinfo = regexp.MustCompile(`//[^/?#]*@`)

// shown is a location as people and clusters may see it. A location without secrets is not changed.
func shown(location string) string {
	u, err := url.Parse(location)
	switch {
	case err != nil:
		before, _, _ := strings.Cut(userinfo.ReplaceAllString(location, "//"), "?")
		return before
	case u.User == nil && (u.RawQuery == "" || u.Scheme == "s3"):
		return location
	}
	return redacted(u)
}

// withoutURL returns the cause of a URL's error. The error itself repeats the URL, which may have secrets.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// isLocal reports whether a location is on this machine's disk.
func isLocal(u *url.URL) bool { return u.Scheme == "" || u.Scheme == "file" }
