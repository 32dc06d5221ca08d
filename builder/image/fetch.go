package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder/fetch"
)

// Blobs returns the content of a resolved image that remains to be fetched: configurations and layers, and those of what is attached, each
// once.
func (r Resolved) Blobs() []Descriptor {
	var list []Descriptor
	for _, m := range slices.Concat(r.Manifests, r.extra()) {
		list = append(append(list, m.Config), m.Layers...)
	}
	return unique(list)
}

// Fetch brings one blob of a resolved image into the cache. Failures are *Error.
func (s *Source) Fetch(ctx context.Context, r Resolved, d Descriptor) (fetch.Stored, error) {
	ref, err := ParseReference(r.Ref)
	if err != nil {
		return fetch.Stored{}, err
	}
	stored, err := s.options.Fetcher.Fetch(ctx, s.blob(ref, d))
	return stored, s.wrap(ref, err)
}

func (s *Source) blob(ref Reference, d Descriptor) fetch.Blob {
	name := ref.String() + " " + d.hex()[:12]
	if d.Size == 0 { // no request; a size of 0 would mean any size
		return fetch.Blob{Name: name, SHA256: d.hex(), Open: func(context.Context) (io.ReadCloser, int64, error) {
			return http.NoBody, 0, nil
		}}
	}
	return fetch.Blob{
		Name: name, SHA256: d.hex(), Size: d.Size,
		From: func(ctx context.Context) (fetch.Location, error) {
			repo, err := s.repos.get(ctx, ref.Repository())
			if err != nil {
				return fetch.Location{}, err
			}
			return repo.blob(d.Digest), nil
		},
	}
}

// Artifact resolves a reference to something other than an image; what names it in errors, such as chart. Failures are *Error.
func (s *Source) Artifact(ctx context.Context, what string, ref Reference) (Manifest, error) {
	root, data, err := s.root(ctx, ref)
	if err != nil {
		return Manifest{}, s.wrapAs(what, ref, err)
	}
	root.MediaType = mediaType(root.MediaType, data)
	if !types.MediaType(root.MediaType).IsImage() {
		return Manifest{}, s.wrapAs(what, ref, fmt.Errorf("what the registry has under this name is of type %s", root.MediaType))
	}
	m, err := parse("", root, data)
	return m, s.wrapAs(what, ref, err)
}

// FetchPart brings a part of an artifact into the cache. Failures are *Error.
func (s *Source) FetchPart(ctx context.Context, what string, ref Reference, d Descriptor) (fetch.Stored, error) {
	if err := check(d); err != nil {
		return fetch.Stored{}, s.wrapAs(what, ref, err)
	}
	stored, err := s.options.Fetcher.Fetch(ctx, s.blob(ref, d))
	return stored, s.wrapAs(what, ref, err)
}

func (s *Source) wrapAs(what string, ref Reference, err error) error {
	err = s.wrap(ref, err)
	if e := (*Error)(nil); errors.As(err, &e) {
		e.What = what
	}
	return err
}
