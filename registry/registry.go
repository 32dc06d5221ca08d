// Package registry fills a registry of the site with the images of a bundle, under the names that clusters find by a rule: the
// registry's prefix, and then the whole name of the image. It writes the configuration with that rule for containerd, OpenShift and k3s.
//
// Charts are pushed as Helm does, below charts/, and OS packages and assets as artifacts that ORAS reads, below packages/ and files/. What
// upstream attached to an image goes with it: signatures, SBOMs, attestations. A registry without the referrers API gets the tags that
// stand for it. What a registry has is not sent again: a whole image costs one request then. Digests stay as they were.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/sealift/sealift/internal/ociurl"
	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/internal/transfer"
)

// Target is a registry, and the prefix of the repositories in it.
type Target struct {
	Host   string // host or host:port
	Prefix string // without slashes at its ends; may be empty
	Plain  bool   // HTTP without TLS
}

// ParseTarget reads a URL such as oci://harbor.corp/mirror. A registry on loopback is spoken to without TLS, and any other one only if
// plain is set.
func ParseTarget(text string, plain bool) (Target, error) {
	u, err := ociurl.Parse(text, plain)
	return Target{Host: u.Host, Prefix: u.Path, Plain: u.Plain}, err
}

// String is the target as a URL.
func (t Target) String() string { return t.url().String() }

func (t Target) url() ociurl.URL { return ociurl.URL{Host: t.Host, Path: t.Prefix, Plain: t.Plain} }

// path is the repository of an upstream one, such as mirror/registry.k8s.io/pause.
func (t Target) path(upstream string) string {
	host, rest, found := strings.Cut(upstream, "/")
	host = component(host)
	if found {
		host += "/" + rest
	}
	return strings.TrimPrefix(t.Prefix+"/"+host, "/")
}

// component is the host of an upstream registry as a part of a repository's path, which has no capitals, brackets and colons. A port is
// separated by an underscore, the groups of an IPv6 address, in full, by hyphens.
func component(host string) string {
	address, port, _ := strings.Cut(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		host = strings.ReplaceAll(ip.StringExpanded(), ":", "-") + port
	}
	return strings.ReplaceAll(strings.ToLower(host), ":", "_")
}

func (t Target) repository(upstream string) string { return t.Host + "/" + t.path(upstream) }

// Options say how a registry is reached.
type Options struct {
	Target Target
	// Only are the Kinds that are pushed; nil means all.
	Only []string
	// Packages are the names of those whose content is pushed; nil means all. It does not go with Record.
	Packages []string
	// Record keeps a list of what was pushed in the registry, for Prune.
	Record bool
	// Transport carries the requests; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Keychain returns credentials; nil means those of docker login and podman login, or anonymous access.
	Keychain authn.Keychain
	// Parallel is how many blobs are sent at once; 0 means 4.
	Parallel int
	// Patience is how long one request is retried; 0 means 5 minutes.
	Patience time.Duration
	// Pause is the first pause between attempts, on average; 0 means 300 ms.
	Pause time.Duration
	// Stall is how long an upload may make no progress; 0 means a minute.
	Stall time.Duration
	// Say receives a line for each image; nil drops them.
	Say func(string)

	waits *sync.Once // says once that requests are repeated
}

func (o Options) withDefaults() Options {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Keychain == nil {
		o.Keychain = authn.DefaultKeychain
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	if o.Patience <= 0 {
		o.Patience = 5 * time.Minute
	}
	if o.Pause <= 0 {
		o.Pause = 300 * time.Millisecond
	}
	if o.Stall <= 0 {
		o.Stall = time.Minute
	}
	o.waits = new(sync.Once)
	if o.Say == nil {
		o.Say = func(string) {}
	}
	return o
}

// client authorizes requests. Retries are those of retry, which know which request can be repeated.
func (o Options) client() *auth.Client {
	bounds := transfer.Bounds{Limit: transfer.RegistryLimit}
	return &auth.Client{
		Client: &http.Client{Transport: transfer.NotingPauses(bounds.Over(o.Transport))},
		Cache:  auth.NewCache(),
		Credential: func(ctx context.Context, host string) (auth.Credential, error) {
			var options []name.Option
			if o.Target.Plain {
				options = append(options, name.Insecure)
			}
			place, err := name.NewRegistry(host, options...)
			if err != nil {
				return auth.EmptyCredential, err
			}
			found, err := authn.Resolve(ctx, o.Keychain, place)
			if err != nil {
				return auth.EmptyCredential, fmt.Errorf("find credentials for %s: %w", host, err)
			}
			c, err := authn.Authorization(ctx, found)
			if err != nil {
				return auth.EmptyCredential, fmt.Errorf("find credentials for %s: %w", host, err)
			}
			return auth.Credential{Username: c.Username, Password: c.Password, RefreshToken: c.IdentityToken, AccessToken: c.RegistryToken}, nil
		},
	}
}

func (o Options) repository(client *auth.Client, path string) (*remote.Repository, error) {
	repo, err := remote.NewRepository(o.Target.Host + "/" + path)
	if err != nil {
		return nil, err
	}
	repo.Client, repo.PlainHTTP = client, o.Target.Plain
	repo.SkipReferrersGC = true // many registries refuse to delete, and the old list of referrers does no harm
	return repo, nil
}

// retry repeats f while the registry is unreachable, overloaded or broken, with the pauses that it asks for, until Patience is over.
func (o Options) retry(ctx context.Context, f func(context.Context) error) error {
	waiting := func(err error) {
		o.waits.Do(func() { o.Say(fmt.Sprintf("retrying for up to %s: %v", o.Patience, err)) })
	}
	return transfer.Retry{First: 2 * o.Pause, Longest: 10 * time.Second, Within: o.Patience, Transient: transient, Waiting: waiting}.Do(ctx, f)
}

// errStalled reports an upload without progress.
var errStalled = errors.New("the registry takes no more bytes")

func transient(err error) bool {
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return outage.StatusPasses(answer.StatusCode)
	}
	return errors.Is(err, errStalled) || errors.Is(err, transfer.ErrStalled) || errors.Is(err, transfer.ErrSlow) || outage.Passes(err)
}
