package build

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/store"
)

// publishedPackage opens the package of an add-on in a store. Only its index is read. The error for a package that is there and
// cannot be read wraps builder.ErrUnreadable.
func publishedPackage(ctx context.Context, s store.Store, name, version string) (_ *bundle.Archive, _ store.Object, err error) {
	key, err := store.PackageKey(name, version)
	if err != nil {
		return nil, nil, err
	}
	o, err := s.Get(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	archive, err := bundle.OpenPackage(o, o.Size())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s in the store: %w: %w", key, builder.ErrUnreadable, err), o.Close())
	}
	return archive, o, nil
}

// changed compares add-ons with their packages in a store and returns those that a build would change.
func (a commands) changed(ctx context.Context, b *builder.Builder, since string, dirs []string) ([]builder.Comparison, error) {
	s, err := store.Opener{Log: a.Log, CAs: a.CAs}.Open(since)
	if err != nil {
		return nil, err
	}
	changed := []builder.Comparison{}
	for _, dir := range dirs {
		var object store.Object
		c, err := b.Compare(ctx, dir, func(name, version string) (archive *bundle.Archive, err error) {
			archive, object, err = publishedPackage(ctx, s, name, version)
			return archive, err
		})
		if object != nil {
			err = errors.Join(err, object.Close())
		}
		if err != nil {
			return nil, err
		}
		if len(c.Changes) == 0 {
			fmt.Fprintf(a.Err, "unchanged %s %s\n", c.Name, c.Version)
			continue
		}
		fmt.Fprintf(a.Err, "changed %s %s: %s\n", c.Name, c.Version, strings.Join(c.Changes, "; "))
		changed = append(changed, c)
	}
	return changed, nil
}

// printChanged prints the directories of changed add-ons, or all details as JSON.
func (a commands) printChanged(changed []builder.Comparison, format string) error {
	if format == "json" {
		return a.PrintJSON(changed)
	}
	for _, c := range changed {
		fmt.Fprintln(a.Out, c.Dir)
	}
	return nil
}
