package assemble

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
)

// companions are the files that a plan adds to its packages. The plan and its readers share them, and the last one closes them.
type companions struct {
	archives []*bundle.Archive // with the lean layers of the packages, in their order; some are nil
	patches  *delta.Set        // nil if the bundle has none

	mu    sync.Mutex
	users int // 0 means closed
}

// openCompanions opens the lean layers of packages. What the spool lacks is made first.
func openCompanions(ctx context.Context, packages []*bundle.Archive, spool *lean.Spool) (*companions, error) {
	c := &companions{users: 1}
	if spool == nil {
		return c, nil
	}
	for _, a := range packages {
		made, err := spool.Companion(ctx, a)
		if err != nil {
			return nil, errors.Join(err, c.release())
		}
		c.archives = append(c.archives, made)
	}
	return c, nil
}

// retain adds a user.
func (c *companions) retain() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		return fs.ErrClosed
	}
	c.users++
	return nil
}

// release removes a user.
func (c *companions) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 {
		return nil
	}
	var errs []error
	for _, a := range c.archives {
		if a != nil {
			errs = append(errs, a.Close())
		}
	}
	if c.patches != nil {
		errs = append(errs, c.patches.Close())
	}
	return errors.Join(errs...)
}

// Compress makes the lean layers of the bundle's packages that a spool lacks.
func (r *Reader) Compress(ctx context.Context, spool *lean.Spool) error {
	for _, o := range r.objects {
		a, err := bundle.OpenPackage(o, o.Size())
		if err != nil {
			return err
		}
		made, err := spool.Companion(ctx, a)
		if err == nil && made != nil {
			err = made.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
