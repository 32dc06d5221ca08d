// Package upstream finds what the upstreams of a catalogue have and the catalogue lacks. Rules in addon.yaml (package origin) say
// where to look: GitHub, the Go module proxy, registries, indexes of charts, apt and yum, and pages.
//
// The package lists and compares versions. It verifies no signatures and fetches no content: what it names is checked when the
// add-on is locked. It changes nothing.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sealift/sealift/builder/chart"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/internal/trust"
)

// DefaultTimeout is how long one upstream may take to answer, with all pages and retries.
const DefaultTimeout = 2 * time.Minute

// Options configures a Source.
type Options struct {
	Mirrors mirror.Set
	CAs     trust.CAs // that servers are trusted by
	Retry   fetch.Retry
	// Keychain returns credentials for registries; nil means those of docker login.
	Keychain authn.Keychain
	// GitHubToken raises GitHub's rate limit. It is sent to GitHub itself and to no mirror.
	GitHubToken string
	Timeout     time.Duration    // of one upstream; 0 means DefaultTimeout
	Now         func() time.Time // nil means time.Now
}

// Source asks upstreams. It may be used from several goroutines.
type Source struct {
	options   Options
	transport *http.Transport
	files     http.RoundTripper // transport with credentials
	images    *image.Source
}

// NewSource returns a source of versions. Call its Close.
func NewSource(o Options) *Source {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	transport := fetch.NewTransport(o.CAs)
	images := image.NewSource(image.Options{Mirrors: o.Mirrors, Retry: o.Retry, Transport: transport, Keychain: o.Keychain})
	return &Source{options: o, transport: transport, files: chart.WithCredentials(transport, o.Keychain), images: images}
}

// Close closes idle connections.
func (s *Source) Close() { s.transport.CloseIdleConnections() }

// Error reports that an upstream could not be asked.
type Error struct {
	Upstream string // such as "github containerd/containerd"
	Err      error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Upstream, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do next, or "".
func (e *Error) Hint() string {
	var hinted interface{ Hint() string }
	var status *fetch.StatusError
	switch {
	case errors.As(e.Err, &hinted) && hinted.Hint() != "":
		return hinted.Hint()
	case errors.As(e.Err, &status) && status.Code < http.StatusInternalServerError && status.Code != http.StatusTooManyRequests:
		return "check the rule in addon.yaml, and the mirror in sealift.yaml if there is one"
	case errors.Is(e.Err, context.DeadlineExceeded), fetch.Transient(e.Err):
		return "check the network, or name a mirror in sealift.yaml"
	}
	return ""
}

// title names the upstream of a rule for people.
func title(rule origin.Rule) string {
	name := string(rule.Kind) + " " + rule.Name
	if rule.Repository != "" {
		name += " in " + rule.Repository
	}
	return name
}

// Release is a version that an upstream has.
type Release struct {
	Version    string
	PreRelease bool
	Withdrawn  string // why upstream advises against it; "" if it does not
}

// Releases lists the versions of one upstream, in its order, each once. Tags that are not versions by the rule are left out. Values
// are the parameters that a page's URL may contain. Failures are *Error.
func (s *Source) Releases(ctx context.Context, rule origin.Rule, values map[string]string) ([]Release, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, fmt.Errorf("no complete answer within %s: %w", s.options.Timeout, context.DeadlineExceeded))
	defer cancel()
	find := map[origin.Kind]func(context.Context, origin.Rule) ([]Release, error){
		origin.GitHub: s.gitHub, origin.GoModule: s.goModule, origin.Registry: s.registry, origin.Chart: s.chart,
		origin.Apt: s.apt, origin.Yum: s.yum, origin.Page: s.page,
	}[rule.Kind]
	filled := rule
	for name, value := range values {
		filled.Name = strings.ReplaceAll(filled.Name, "${"+name+"}", url.PathEscape(value))
	}
	found, err := find(ctx, filled)
	if err == nil {
		return tidy(rule, found), nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, &Error{title(rule), err}
}

// versionWord matches what may be a version: one word that means nothing to a shell.
var versionWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~:-]{0,127}$`)

// tidy applies the tag of a rule to what an upstream named, and drops what is not a version.
func tidy(rule origin.Rule, found []Release) []Release {
	before, after, wild := strings.Cut(rule.Tag, "*")
	seen := map[string]bool{}
	list := []Release{}
	for _, r := range found {
		if wild {
			rest, begins := strings.CutPrefix(r.Version, before)
			inner, ends := strings.CutSuffix(rest, after)
			if !begins || !ends {
				continue
			}
			r.Version = inner
		}
		pre, ok := judge(rule.Order, r.Version)
		if !ok || seen[r.Version] || !versionWord.MatchString(r.Version) {
			continue
		}
		seen[r.Version] = true
		r.PreRelease = r.PreRelease || pre
		list = append(list, r)
	}
	return list
}

// get reads a document from an upstream or its mirror, and retries transient failures. A document larger than limit bytes is an
// error.
func (s *Source) get(ctx context.Context, address string, limit int64, header http.Header, read func(*http.Response) error) error {
	client := fetch.Client{Transport: s.files, Bounds: transfer.Bounds{Limit: func(*http.Request) int64 { return limit }}}
	return s.options.Retry.Do(ctx, func(ctx context.Context) error {
		resp, err := client.Get(ctx, s.options.Mirrors.URL(address), header)
		if err != nil {
			return limited(err, s.options.Now())
		}
		defer func() { _ = resp.Body.Close() }()
		return read(resp)
	})
}

// text is get for a document that fits into memory.
func (s *Source) text(ctx context.Context, address string, limit int64) (data []byte, err error) {
	err = s.get(ctx, address, limit, nil, func(resp *http.Response) (err error) {
		data, err = io.ReadAll(resp.Body)
		return err
	})
	return data, err
}
