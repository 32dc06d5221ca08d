package bundle

import (
	"errors"
	"fmt"
	"io"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/cli/app"
)

// earlier is what the readers of a bundle have already. It is open while the bundle is planned.
type earlier struct {
	since    *bundle.Since // nil if they have nothing
	archives []*bundle.Archive
	open     []io.Closer
}

func (e *earlier) close() error {
	var errs []error
	for _, one := range e.open {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// openSince opens the bundle of --since, if one is named.
func openSince(name string) (e earlier, err error) {
	if name == "" {
		return e, nil
	}
	old, err := bundle.Open(name)
	if err != nil {
		return e, fmt.Errorf("--since: %w", err)
	}
	e.archives, e.open = []*bundle.Archive{old}, []io.Closer{old}
	if e.since, err = old.Since(); err != nil {
		return e, errors.Join(fmt.Errorf("--since %s: %w", name, err), e.close())
	}
	return e, nil
}

// patches returns the maker of patches, if they are requested.
func (e *earlier) patches(o bundleOptions, runs cluster) (*delta.Earlier, error) {
	if !o.patch {
		return nil, nil
	}
	if o.since == "" && runs.record == nil { // --upgrade-from may also name a version
		return nil, app.UsageError("--patch needs earlier files: name a bundle with --since, or the record of a cluster with --upgrade-from")
	}
	if e.since == nil {
		return nil, nil
	}
	return &delta.Earlier{Archives: e.archives, Since: e.since, Spool: delta.NewSpool(deflated(o.cache))}, nil
}
