// Package assemble assembles the bundle of one Installer from the packages in a store.
//
// The package knows which packages an Installer needs and which other files a bundle has. Package bundle handles the bytes,
// and package store the places.
package assemble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// Request describes a bundle to assemble.
type Request struct {
	Installer *spec.Installer // with versions instead of patterns; see Resolve
	Packages  packages.Source
	// Steps are intermediate Kubernetes versions at which an upgrade to the Installer's version stops, as an Installer names them.
	// Their packages come with the bundle.
	Steps []spec.AddOn
	// Programs are the programs for the nodes, one for each platform of theirs.
	Programs []Program
	// Commands are the commands of the nodes' sealift that scripts may start: install, join, upgrade. A script for another
	// command prints an error and fails.
	Commands []string
	// KeepPreflight keeps sealift-preflight in the bundle even if no add-on and no Installer has something for it to do.
	KeepPreflight bool
	// Since leaves out the files of an earlier bundle. nil leaves out nothing.
	Since *bundle.Since
	// Lean makes and keeps lean forms of layers. The bundle then has these forms of the layers of its packages. nil leaves layers as
	// the packages have them.
	Lean *lean.Spool
	// Patches makes patches of files of the bundle in Since, instead of carrying new versions whole. nil makes none.
	Patches *delta.Earlier
	// Similar makes and keeps patches between similar files of the bundle: of such files, it carries one whole. nil makes none.
	Similar *delta.Spool
	// Key signs the bundle's index. nil means no signature.
	Key *signature.Key
}

// Plan is the exact plan of a bundle. All of its parts are available.
type Plan struct {
	*bundle.Layout
	// Installer is the one in the bundle: the requested one with the add-ons that its add-ons need.
	Installer *spec.Installer

	objects []store.Object
	places  []place     // of the objects
	lean    *companions // nil before they are open, and without an Installer
}

// place is the location of a package.
type place struct {
	packages packages.Source
	key      string
}

// part is the package of one add-on.
type part struct {
	place   place
	object  store.Object
	archive *bundle.Archive
	meta    catalog.Meta
	addOn   spec.AddOn // of the Installer, with options of the declared types
}

// opensAtOnce is the number of packages that are opened in parallel. Each costs a few requests to the store.
const opensAtOnce = 8

// Prepare opens every package that the Installer names and checks that they make a cluster together. One error names
// everything that is missing. Call Close after use.
func Prepare(ctx context.Context, r Request) (_ *Plan, err error) {
	p := &Plan{Installer: r.Installer}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	parts, err := p.open(ctx, r, slices.Concat(r.Installer.AddOns, r.Steps))
	if err != nil {
		return nil, err
	}
	typed := *r.Installer
	typed.AddOns = slices.Clone(typed.AddOns)
	for n := range typed.AddOns {
		typed.AddOns[n] = parts[n].addOn
	}
	p.Installer, r.Installer = &typed, &typed
	more, err := r.utility(ctx, archives(parts))
	if err != nil {
		return nil, err
	}
	operator, err := r.operator(ctx, parts)
	if err != nil {
		return nil, err
	}
	more = append(more, operator...)
	if len(more) > 0 {
		with := *r.Installer
		with.AddOns = slices.Concat(with.AddOns, more)
		p.Installer, r.Installer = &with, &with
		added, err := p.open(ctx, r, more)
		if err != nil {
			return nil, err
		}
		parts = append(parts, added...)
	}
	if err := r.check(parts); err != nil {
		return nil, err
	}
	b := bundle.Bundle{Since: r.Since, Key: r.Key, Packages: archives(parts)}
	if p.lean, err = openCompanions(ctx, b.Packages, r.Lean); err != nil {
		return nil, err
	}
	b.Lean = p.lean.archives
	if b.Members, err = r.members(ctx, b.Packages); err != nil {
		return nil, err
	}
	if r.Patches != nil {
		patches, err := r.Patches.Make(ctx, b.Packages, b.Lean)
		if err != nil {
			return nil, err
		}
		p.lean.add(&b, patches)
	}
	if r.Similar != nil {
		patches, err := r.Similar.Within(ctx, b)
		if err != nil {
			return nil, err
		}
		p.lean.add(&b, patches)
	}
	p.Layout, err = bundle.NewLayout(b)
	return p, err
}

// check refuses packages that make no cluster together.
func (r Request) check(parts []part) error {
	var metas []catalog.Meta
	for _, one := range parts {
		if r.Installer.AddOn(one.meta.Name).Version == one.meta.Version {
			metas = append(metas, one.meta)
		}
	}
	if len(metas) == 0 {
		return &packages.UnknownError{Message: "the Installer names no add-ons"}
	}
	if err := diag.Err(catalog.Check(r.Installer, metas)); err != nil {
		return err
	}
	if _, err := catalog.Order(metas); err != nil {
		return &packages.UnknownError{Message: err.Error()}
	}
	return checkSandbox(archives(parts))
}

// PrepareSupplement plans an archive with only the named packages, each <name>-<version>, for a cluster that needs more
// than its bundle has, for example the Kubernetes releases between two versions. key signs its index; nil means no signature.
func PrepareSupplement(ctx context.Context, from packages.Source, key *signature.Key, platforms, names []string) (_ *Plan, err error) {
	p := &Plan{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	b := bundle.Bundle{Key: key}
	for _, name := range names {
		at := place{from, from.Key(name + packages.Suffix)}
		object, archive, err := from.Open(ctx, at.key, platforms...)
		if object != nil {
			p.objects, p.places = append(p.objects, object), append(p.places, at)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &packages.UnknownError{Message: "the store has no package " + name}
		}
		if err != nil {
			return nil, err
		}
		b.Packages = append(b.Packages, archive)
	}
	p.Layout, err = bundle.NewLayout(b)
	return p, err
}

// open opens the packages of add-ons. They belong to the plan, whether open fails or not.
func (p *Plan) open(ctx context.Context, r Request, wanted []spec.AddOn) ([]part, error) {
	parts := make([]part, len(wanted))
	errs := make([]error, len(parts))
	var group errgroup.Group
	group.SetLimit(opensAtOnce)
	for i, one := range wanted {
		group.Go(func() error {
			parts[i], errs[i] = r.open(ctx, one)
			return nil
		})
	}
	_ = group.Wait() // all errors are collected in the order of the Installer
	for _, one := range parts {
		if one.object != nil {
			p.objects, p.places = append(p.objects, one.object), append(p.places, one.place)
		}
	}
	return parts, errors.Join(errs...)
}

func archives(parts []part) (list []*bundle.Archive) {
	for _, one := range parts {
		list = append(list, one.archive)
	}
	return list
}

// open finds the package of one add-on.
func (r Request) open(ctx context.Context, wanted spec.AddOn) (part, error) {
	from, key, err := r.Packages.Place(wanted)
	if err != nil {
		return part{}, fmt.Errorf("%s: %w", wanted.Pos, err)
	}
	object, archive, err := from.Open(ctx, key, Platforms(r.Programs)...)
	one := part{place: place{from, key}, object: object, archive: archive}
	if errors.Is(err, fs.ErrNotExist) {
		return one, &packages.UnknownError{Message: fmt.Sprintf("%s: the store has no package %s%s", wanted.Pos, key, from.Others(ctx, wanted.Name))}
	}
	if err != nil {
		return one, err
	}
	if info := archive.Index.Packages[0]; info.Name != wanted.Name || info.Version != wanted.Version {
		return one, &packages.UnusableError{Message: fmt.Sprintf("package %s says that it is %s %s; build and publish it again", key, info.Name, info.Version)}
	}
	if one.meta, err = catalog.Read(archive.FS(), wanted.Name, wanted.Version); err != nil {
		return one, fmt.Errorf("package %s: %w", key, err)
	}
	if one.addOn, err = one.meta.Typed(wanted); err != nil {
		return one, &packages.UnknownError{Message: fmt.Sprintf("%s: %v", wanted.Pos, err)}
	}
	return one, nil
}

// Reader is an open bundle that can be read at any offset.
type Reader struct {
	io.ReaderAt
	objects []store.Object
	lean    *companions
}

// Packages returns how many packages the plan keeps open.
func (p *Plan) Packages() int { return len(p.objects) }

// Open opens the bundle for reads that end with ctx. Readers are independent of each other and of the plan.
func (p *Plan) Open(ctx context.Context) (*Reader, error) {
	r := &Reader{}
	if p.lean != nil {
		if err := p.lean.retain(); err != nil {
			return nil, err
		}
		r.lean = p.lean
	}
	var packages []io.ReaderAt
	for _, o := range p.objects {
		again, err := o.Reopen(ctx)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.objects, packages = append(r.objects, again), append(packages, again)
	}
	r.ReaderAt = p.Reader(packages)
	return r, nil
}

// Close ends all reads.
func (r *Reader) Close() error { return closeBoth(r.objects, r.lean) }

// Current reports whether the store still has the packages of the plan. It does not read them.
func (p *Plan) Current(ctx context.Context) (bool, error) {
	same := make([]bool, len(p.places))
	var group errgroup.Group
	group.SetLimit(opensAtOnce)
	for i, at := range p.places {
		group.Go(func() error {
			o, err := at.packages.Store.Get(ctx, at.key)
			if err != nil {
				return err
			}
			same[i] = o.Version() == p.objects[i].Version()
			return o.Close()
		})
	}
	err := group.Wait()
	return err == nil && !slices.Contains(same, false), err
}

// Write writes the bundle.
func (p *Plan) Write(ctx context.Context, w io.Writer) error {
	var packages []io.ReaderAt
	for _, o := range p.objects {
		packages = append(packages, o)
	}
	return p.Layout.Write(ctx, w, packages)
}

// Close releases the packages.
func (p *Plan) Close() error {
	return closeBoth(p.objects, p.lean)
}

func closeBoth(objects []store.Object, lean *companions) error {
	var errs []error
	if lean != nil {
		errs = append(errs, lean.release())
	}
	for _, o := range objects {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}
