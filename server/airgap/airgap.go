// Package airgap assembles the bundle of one Installer out of the packages in a store.
//
// The package knows which packages an Installer needs and what else lies in a bundle. The bytes are the business of
// bundle, the places of store.
package airgap

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

//go:embed install.sh
var installScript string

// Request says what a bundle is made of.
type Request struct {
	Installer *spec.Installer
	Store     store.Store
	// Binary is the sealift for the nodes, and Platform the platform it was built for.
	Binary   string
	Platform string
	// Spool is a folder for compressed forms of large files; see bundle.WriteOptions.
	Spool string
	// Key signs the bundle's index, if it is not nil.
	Key *signature.Key
}

// Plan is a bundle whose parts are all there.
type Plan struct {
	request  Request
	files    []bundle.File
	packages []*bundle.Archive
	objects  []store.Object
}

// Prepare opens every package that the Installer names and checks that together they make a cluster. All that is missing
// is in one error. Close must be called.
func Prepare(ctx context.Context, r Request) (_ *Plan, err error) {
	p := &Plan{request: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	var errs []error
	var metas []catalog.Meta
	for _, wanted := range r.Installer.AddOns {
		meta, err := p.open(ctx, wanted)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		metas = append(metas, meta)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(metas) == 0 {
		return nil, errors.New("the Installer names no add-ons")
	}
	if _, err := catalog.Order(metas); err != nil {
		return nil, err
	}
	p.files, err = r.files()
	return p, err
}

// open finds the package of one add-on.
func (p *Plan) open(ctx context.Context, wanted spec.AddOn) (catalog.Meta, error) {
	key, err := store.PackageKey(wanted.Name, wanted.Version)
	if err != nil {
		return catalog.Meta{}, fmt.Errorf("%s: %w", wanted.Pos, err)
	}
	object, err := p.request.Store.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return catalog.Meta{}, fmt.Errorf("%s: the store has no package %s%s", wanted.Pos, key, p.others(ctx, wanted.Name))
	}
	if err != nil {
		return catalog.Meta{}, err
	}
	p.objects = append(p.objects, object)
	archive, err := bundle.NewArchive(object, object.Size())
	if err != nil {
		return catalog.Meta{}, fmt.Errorf("package %s: %w", key, err)
	}
	if info := archive.Index.Packages[0]; info.Name != wanted.Name || info.Version != wanted.Version {
		return catalog.Meta{}, fmt.Errorf("package %s says that it is %s %s; build and publish it again", key, info.Name, info.Version)
	}
	if !slices.Contains(archive.Index.Platforms, p.request.Platform) {
		return catalog.Meta{}, fmt.Errorf("package %s is for %s, not for %s; build it with --platform %s",
			key, strings.Join(archive.Index.Platforms, ", "), p.request.Platform, p.request.Platform)
	}
	p.packages = append(p.packages, archive)
	meta, err := catalog.Read(archive.FS(), wanted.Name, wanted.Version)
	if err != nil {
		return catalog.Meta{}, fmt.Errorf("package %s: %w", key, err)
	}
	if err := meta.CheckOptions(wanted.Options); err != nil {
		return catalog.Meta{}, fmt.Errorf("%s: %w", wanted.Pos, err)
	}
	return meta, nil
}

// others names the versions that the store has instead.
func (p *Plan) others(ctx context.Context, name string) string {
	infos, err := p.request.Store.List(ctx, name+"-")
	if err != nil || len(infos) == 0 {
		return "; build it with 'sealift build' and put it there"
	}
	var keys []string
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	return "; it has " + strings.Join(keys, ", ")
}

// files are what lies at the root of the bundle.
func (r Request) files() ([]bundle.File, error) {
	binary, err := bundle.DiskFile(bundle.BinaryName, 0o755, r.Binary)
	if err != nil {
		return nil, fmt.Errorf("sealift for the nodes: %w", err)
	}
	text, err := r.Installer.Canonical()
	if err != nil {
		return nil, err
	}
	script := strings.NewReplacer("@PLATFORM@", r.Platform, "@SHA256@", binary.SHA256).Replace(installScript)
	return []bundle.File{
		bundle.BytesFile(bundle.ScriptName, 0o755, []byte(script)), bundle.BytesFile(bundle.InstallerName, 0o644, text), binary,
	}, nil
}

// Write writes the bundle.
func (p *Plan) Write(ctx context.Context, w io.Writer) (bundle.Index, error) {
	return bundle.WriteBundle(ctx, w, bundle.Bundle{Files: p.files, Packages: p.packages}, bundle.WriteOptions{
		Spool: p.request.Spool, Key: p.request.Key, Jobs: runtime.GOMAXPROCS(0)})
}

// Close releases the packages.
func (p *Plan) Close() error {
	var errs []error
	for _, o := range p.objects {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}
