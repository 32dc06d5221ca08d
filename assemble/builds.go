package assemble

import (
	"context"
	"errors"
	"io/fs"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// Build names one build of a package: another one has another index.
type Build struct{ Name, Version, Index string }

// OpenBuild opens a package. If the store lacks this build, or cannot use what it has, found is false. Close the object.
func OpenBuild(ctx context.Context, b Build, from packages.Source, platforms []string) (object store.Object, archive *bundle.Archive, found bool, err error) {
	at, key, err := from.Place(spec.AddOn{Name: b.Name, Version: b.Version})
	if err != nil {
		return nil, nil, false, err
	}
	object, archive, err = at.Open(ctx, key, platforms...)
	if err == nil && archive.Digest == b.Index {
		return object, archive, true, nil
	}
	if object != nil {
		err = errors.Join(err, object.Close())
	}
	if _, unusable := errors.AsType[*packages.UnusableError](err); unusable || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, nil, false, err
}
