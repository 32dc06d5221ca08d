package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/builder/fetch"
)

// Artifact finds out what a reference to something other than an image points to; what names it in errors, such as chart.
// Failures are *Error.
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
