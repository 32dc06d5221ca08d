package image

import (
	"context"
	"errors"
	"io/fs"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/builder/cache"
)

// ResolvePinned is Resolve for a reference whose digest is in a lock. It does not ask for the tag, only for the content by its
// digest, and not even for that if the cache has it. Failures are *Error.
func (s *Source) ResolvePinned(ctx context.Context, ref Reference, root Descriptor, platforms []string) (Resolved, error) {
	if err := check(root); err != nil {
		return Resolved{}, s.wrap(ref, err)
	}
	pinned, err := ref.pin(root.Digest)
	if err != nil {
		return Resolved{}, s.wrap(ref, err)
	}
	r := Resolved{Ref: ref.String()}
	data, err := s.options.Cache.Read(root.hex(), maxManifest)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, cache.ErrMismatch) {
		_, data, err = s.manifest(ctx, pinned, root.Digest)
	}
	if err == nil {
		err = s.takeApart(ctx, pinned, root, data, platforms, &r)
	}
	return r, s.wrap(pinned, err)
}

// pin returns the reference with a digest in place of its tag.
func (r Reference) pin(to string) (Reference, error) {
	named, err := reference.WithDigest(reference.TrimNamed(r.named), digest.Digest(to))
	return Reference{named: named}, err
}
