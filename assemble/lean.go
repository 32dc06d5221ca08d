package assemble

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
)

// companions are the files that a plan adds to its packages. The plan and its readers share them, and the last one closes them.
type companions struct {
	archives []*bundle.Archive // with the lean layers of the packages, in their order; some are nil
	patches  []*delta.Set

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

// add adds patches to a bundle.
func (c *companions) add(b *bundle.Bundle, set *delta.Set) {
	c.patches = append(c.patches, set)
	b.Members = append(b.Members, set.Members...)
	if b.Patched == nil {
		b.Patched = make(map[string]bundle.Entry)
	}
	maps.Copy(b.Patched, set.Entries)
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
	for _, set := range c.patches {
		errs = append(errs, set.Close())
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
