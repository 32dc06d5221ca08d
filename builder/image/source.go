package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/transfer"
)

// repository is one repository of a registry as it is requested, which a mirror may serve under another name.
type repository struct {
	name.Repository
	client fetch.Client
}

// repositories opens repositories, each once: opening one takes a round trip, and two when it hands out tokens.
type repositories struct {
	mirrors   mirror.Set
	keychain  authn.Keychain
	transport http.RoundTripper

	open fetch.Opened[*repository]
}

// get opens the repository of an upstream one, such as registry.k8s.io/pause.
func (s *repositories) get(ctx context.Context, upstream string) (*repository, error) {
	kept, release, err := s.open.Get(ctx, upstream)
	if err != nil {
		return nil, err
	}
	defer release()
	if *kept == nil {
		*kept, err = s.dial(ctx, upstream)
	}
	return *kept, err
}

func (s *repositories) dial(ctx context.Context, upstream string) (*repository, error) {
	repo, err := locate(s.mirrors, upstream)
	if err != nil {
		return nil, err
	}
	auth, err := authn.Resolve(ctx, s.keychain, repo)
	if err != nil {
		return nil, fmt.Errorf("find credentials for %s: %w", repo.RegistryStr(), err)
	}
	// remote follows redirects without an end, and reads a manifest of any size.
	bounds := transfer.Bounds{Limit: transfer.RegistryLimit}
	authorized, err := transport.NewWithContext(ctx, repo.Registry, auth, bounds.Over(s.transport), []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, fmt.Errorf("reach registry %s: %w", repo.RegistryStr(), err)
	}
	return &repository{Repository: repo, client: fetch.Client{Transport: authorized}}, nil
}

// locate applies the mirrors to the name of an upstream repository.
func locate(mirrors mirror.Set, upstream string) (name.Repository, error) {
	place, plainHTTP := mirrors.Repository(upstream)
	var options []name.Option
	if plainHTTP {
		options = append(options, name.Insecure)
	}
	repo, err := name.NewRepository(place, options...)
	if err != nil {
		return name.Repository{}, fmt.Errorf("name of repository %s: %w", place, err)
	}
	return repo, nil
}

// options apply to every request for a manifest. The transport is authorized and is not wrapped again, so nothing below
// retries: that is left to fetch.Retry.
func (r *repository) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(r.client.Transport)}
}

// blob is the URL of a blob in the repository.
func (r *repository) blob(digest string) fetch.Location {
	address := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", r.Scheme(), r.RegistryStr(), r.RepositoryStr(), digest)
	return fetch.Location{Client: r.client, URL: address}
}

// statusOf is the HTTP status that an error stands for, or 0.
func statusOf(err error) int {
	if status, ok := errors.AsType[*fetch.StatusError](err); ok {
		return status.Code
	}
	if registry, ok := errors.AsType[*transport.Error](err); ok {
		return registry.StatusCode
	}
	return 0
}
