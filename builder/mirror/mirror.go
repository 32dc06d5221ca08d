// Package mirror rewrites upstream names to the mirrors that serve them. Manifests always have upstream names. Rules in
// sealift.yaml send the requests to a company's proxy or to a lab. The package only rewrites names and never fetches.
package mirror

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Set is a set of rules. The zero value changes nothing.
type Set struct {
	urls         []rule
	repositories []rule
}

type rule struct{ from, to string }

// New checks rules and returns them as a set. A key that starts with http:// or https:// is a prefix of URLs. Any other key
// is a prefix of image repositories, such as registry.k8s.io or docker.io/library. A prefix ends at a slash: example.com
// does not match example.com.evil. The error names all mistakes.
func New(rules map[string]string) (Set, error) {
	var s Set
	var errs []error
	for from, to := range rules {
		r := rule{from: from, to: to}
		check := checkRepositoryRule
		list := &s.repositories
		if isURL(from) {
			check, list = checkURLRule, &s.urls
		}
		if err := check(r); err != nil {
			errs = append(errs, fmt.Errorf("mirror %q: %w", from, err))
			continue
		}
		*list = append(*list, r)
	}
	for _, list := range [][]rule{s.urls, s.repositories} {
		slices.SortFunc(list, func(a, b rule) int { return len(b.from) - len(a.from) })
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return s, errors.Join(errs...)
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

func checkURLRule(r rule) error {
	if !isURL(r.to) {
		return fmt.Errorf("a prefix of URLs needs a URL to replace it, not %q", r.to)
	}
	for _, s := range []string{r.from, r.to} {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return fmt.Errorf("%q is not a URL with a host", s)
		}
		if u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("%q: a prefix of URLs has no query and no fragment", s)
		}
	}
	return nil
}

func checkRepositoryRule(r rule) error {
	if err := checkRepository(r.from); err != nil {
		return err
	}
	if strings.HasPrefix(r.to, "https://") {
		return errors.New("write the registry as host[:port][/path], without https://")
	}
	return checkRepository(strings.TrimPrefix(r.to, "http://"))
}

func checkRepository(s string) error {
	if strings.Contains(s, "@") { // the error does not repeat it
		return errors.New("a registry is written without a user, a password or a digest; 'docker login' keeps passwords")
	}
	if s == "" || strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/") || strings.Contains(s, "//") || strings.ContainsAny(s, " \t\r\n@?#\\") {
		return fmt.Errorf("%q is not of the form host[:port][/path]", s)
	}
	return nil
}

// URL returns the URL to request instead of an upstream one. Percent-escapes are kept.
func (s Set) URL(upstream string) string {
	to, rest, ok := match(s.urls, upstream)
	if !ok {
		return upstream
	}
	return join(to, rest)
}

// Repository returns the repository to use instead of an upstream one, such as registry.k8s.io/pause, and whether it uses
// plain HTTP.
func (s Set) Repository(upstream string) (repository string, plainHTTP bool) {
	to, rest, ok := match(s.repositories, upstream)
	if !ok {
		return upstream, false
	}
	to, plainHTTP = strings.CutPrefix(to, "http://")
	return join(to, rest), plainHTTP
}

// match returns the longest rule for a name, and the part of the name after its prefix.
func match(rules []rule, name string) (to, rest string, ok bool) {
	for _, r := range rules {
		rest, found := strings.CutPrefix(name, r.from)
		if !found {
			continue
		}
		if strings.HasSuffix(r.from, "/") {
			rest = "/" + rest
		}
		if rest == "" || rest[0] == '/' {
			return r.to, rest, true
		}
	}
	return "", "", false
}

// join puts exactly one slash between a replacement and the rest of the name. The rest starts with a slash or is empty.
func join(to, rest string) string {
	if rest == "" {
		return to
	}
	return strings.TrimSuffix(to, "/") + rest
}
