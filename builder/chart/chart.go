// Package chart brings Helm charts from registries and from repositories that are served over HTTP into the cache, and finds
// the images that a rendered chart needs. It renders nothing.
package chart

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/manifest"
)

// MaxSize bounds the archive of a chart, in bytes. Helm refuses one that unpacks to more than 100 MiB.
const MaxSize = 64 << 20

// contentType is the media type of a chart's archive in a registry.
const contentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

const noun = "chart" // in errors

// Resolved is a chart whose archive is known and in the cache.
type Resolved struct {
	lock.Chart
	// Fetched is how many bytes were transferred to find out.
	Fetched int64 `json:"-"`
}

// FileName is the name of the archive.
func (r Resolved) FileName() string { return r.Name + "-" + r.Version + ".tgz" }

// Options configures how charts are fetched.
type Options struct {
	Cache     *cache.Cache
	Fetcher   fetch.Fetcher // brings blobs into Cache
	Mirrors   mirror.Set
	Images    *image.Source // asks registries
	Transport http.RoundTripper
	// Keychain returns credentials for repositories over HTTPS; nil means those of docker login.
	Keychain authn.Keychain
}

// Source resolves charts. It may be used from several goroutines.
type Source struct {
	options Options
	files   *asset.Source
}

// NewSource returns a source of charts.
func NewSource(o Options) *Source {
	if o.Keychain == nil {
		o.Keychain = authn.DefaultKeychain
	}
	client := fetch.Client{Transport: WithCredentials(o.Transport, o.Keychain)}
	files := asset.NewSource(asset.Options{Cache: o.Cache, Fetcher: o.Fetcher, Mirrors: o.Mirrors, Client: client, What: noun, Limit: MaxSize})
	return &Source{options: o, files: files}
}

// Resolve finds a chart in a repository and brings its archive into the cache.
func (s *Source) Resolve(ctx context.Context, repository, name, version string) (Resolved, error) {
	r := Resolved{Chart: lock.Chart{Name: name, Repository: repository, Version: version}}
	if path, ok := strings.CutPrefix(repository, manifest.OCIScheme); ok {
		// a tag cannot have the '+' of a version; Helm writes '_'
		return s.fromRegistry(ctx, path+":"+strings.ReplaceAll(version, "+", "_"), r)
	}
	address, digest, err := s.find(ctx, repository, name, version)
	if err != nil {
		return Resolved{}, err
	}
	if reference, ok := strings.CutPrefix(address, manifest.OCIScheme); ok { // an index may lead to a registry
		if r, err = s.fromRegistry(ctx, reference, r); err != nil {
			return Resolved{}, err
		}
		return r, s.rememberListed(r.Chart)
	}
	file, err := s.files.Resolve(ctx, nil, r.FileName(), address)
	if err != nil {
		return Resolved{}, err
	}
	if digest != "" && digest != file.SHA256 {
		return Resolved{}, &digestError{address: address, is: file.SHA256, want: digest}
	}
	r.URL, r.Blob, r.Fetched = address, file.Blob, file.Fetched
	return r, s.rememberListed(r.Chart)
}

// digestError reports that an archive differs from the one in the index of its repository.
type digestError struct{ address, is, want string }

func (e *digestError) Error() string {
	return fmt.Sprintf("chart %s has the digest sha256:%s, and the index of its repository says sha256:%s", e.address, e.is, e.want)
}

// Hint names the next step.
func (e *digestError) Hint() string {
	return "the archive was damaged or replaced: build again, and if it stays so ask who runs the repository, or use a mirror"
}

func (s *Source) fromRegistry(ctx context.Context, reference string, r Resolved) (Resolved, error) {
	ref, err := image.ParseReference(reference)
	if err != nil {
		return Resolved{}, err
	}
	artifact, err := s.options.Images.Artifact(ctx, noun, ref)
	if err != nil {
		return Resolved{}, err
	}
	for _, layer := range artifact.Layers {
		if layer.MediaType != contentType {
			continue
		}
		r.URL = manifest.OCIScheme + ref.Repository() + "@" + artifact.Digest
		r.Blob = bundle.Blob{SHA256: strings.TrimPrefix(layer.Digest, "sha256:"), Size: layer.Size}
		err = s.Fetch(ctx, &r)
		return r, err
	}
	return Resolved{}, fmt.Errorf("%s is not a Helm chart: it has no part of type %s", ref, contentType)
}

// Fetch brings the archive of a resolved chart into the cache. Where the repository has other content by now, the error wraps
// cache.ErrMismatch.
func (s *Source) Fetch(ctx context.Context, r *Resolved) error {
	if r.Size > MaxSize {
		return fmt.Errorf("chart %s has %d bytes, more than the %d that are supported", r.Name, r.Size, int64(MaxSize))
	}
	var stored fetch.Stored
	var err error
	if path, ok := strings.CutPrefix(r.URL, manifest.OCIScheme); ok {
		ref, parseErr := image.ParseReference(path)
		if parseErr != nil {
			return parseErr
		}
		stored, err = s.options.Images.FetchPart(ctx, noun, ref, image.Descriptor{MediaType: contentType, Digest: "sha256:" + r.SHA256, Size: r.Size})
	} else {
		stored, err = s.files.Fetch(ctx, asset.Pinned(r.FileName(), r.URL, r.Blob))
	}
	r.Fetched = stored.Transferred
	return err
}

// WithCredentials returns a transport that adds the password that docker login keeps for a host to requests over TLS. A nil keychain
// means that of docker login.
func WithCredentials(next http.RoundTripper, keychain authn.Keychain) http.RoundTripper {
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	return authorized{next: next, keychain: keychain}
}

// authorized adds the password that docker login keeps for a host to requests over TLS. A request that already has one, such as
// from the URL of a mirror, is not changed.
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
