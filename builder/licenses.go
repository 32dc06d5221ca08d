package builder

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/builder/licensing"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/manifest"
)

// LicenseChanges compares the licenses of the host packages of two versions of an add-on, for the builder's targets. The licenses of a
// package that has another digest are read from its file, which is fetched if the cache does not know them.
func (b *Builder) LicenseChanges(ctx context.Context, before, now string) ([]manifest.Change, error) {
	was, err := b.resolveDir(ctx, before)
	if err != nil {
		return nil, err
	}
	is, err := b.resolveDir(ctx, now)
	if err != nil {
		return nil, err
	}
	old, err := was.Licenses(ctx, is.HostPackages())
	if err != nil {
		return nil, err
	}
	current, err := is.Licenses(ctx, was.HostPackages())
	if err != nil {
		return nil, err
	}
	return manifest.Changes("license ", old, current), nil
}

// checkLicenses refuses a package, packed but not in its place, whose content has forbidden licenses.
func (b *Builder) checkLicenses(ctx context.Context, f *os.File) error {
	if len(b.licenses.Forbidden) == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	packed, err := bundle.NewArchive(f, info.Size())
	if err != nil {
		return err
	}
	listed, err := inventory.Read(ctx, packed, inventory.Options{})
	if err != nil {
		return fmt.Errorf("list its content for licenses.forbidden: %w", err)
	}
	report, err := licensing.Of(packed, listed)
	if err != nil {
		return err
	}
	return report.Check(b.licenses, config.FileName, time.Now())
}

func (b *Builder) resolveDir(ctx context.Context, dir string) (kind.Resolution, error) {
	a, err := openAddOn(dir)
	if err != nil {
		return kind.Resolution{}, err
	}
	defer a.close()
	return b.resolve(ctx, a)
}
