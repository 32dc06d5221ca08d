package server

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/server/page"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store/release"
)

// pages implements page.Source.
type pages struct{ *Server }

// List implements page.Source.
func (p pages) List(r *http.Request) (release.Index, error) {
	c, err := p.catalogue(r.Context(), folderOf(r))
	if err != nil {
		return release.Index{}, err
	}
	return c.index, nil
}

// Open implements page.Source.
func (p pages) Open(ctx context.Context, r *http.Request, name, version string) (page.Package, error) {
	packages := p.options.Packages
	packages.Folder = folderOf(r)
	if !packageForm.MatchString(name + "-" + version) {
		return page.Package{}, problem(http.StatusNotFound, "the name of a package is <name>-<version>")
	}
	file := name + "-" + version + packageSuffix
	object, err := packages.Get(ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		return page.Package{}, fs.ErrNotExist
	}
	var archive *bundle.Archive
	if err == nil {
		if archive, err = bundle.OpenPackage(object, object.Size()); err != nil {
			err = errors.Join(err, object.Close())
		}
	}
	if err != nil {
		p.log.Error("package not opened", "package", file, "error", err)
		return page.Package{}, asProblem(err)
	}
	return page.Package{Archive: archive, Close: object.Close}, nil
}

// Plan implements page.Source.
func (p pages) Plan(r *http.Request, i *spec.Installer) (page.Plan, error) {
	d, err := sentDocument("the Installer", i)
	if err != nil {
		return page.Plan{}, asProblem(err)
	}
	plan, err := p.plans.get(r.Context(), planKey{document: d, folder: folderOf(r), client: connlimit.Key(p.client(r))})
	if err != nil {
		return page.Plan{}, asProblem(err)
	}
	resolved, err := spec.Parse("the Installer", bytes.NewReader(plan.installer))
	return page.Plan{Installer: resolved, Size: plan.Size()}, err
}

// Create implements page.Source. Pages cannot send a token.
func (p pages) Create(r *http.Request, i *spec.Installer) (string, error) {
	if p.options.Closed {
		return "", problem(http.StatusForbidden, "this server stores Installers only with its token; send the YAML and the token to /installer")
	}
	if err := p.harmless(r, i); err != nil {
		return "", err
	}
	d, err := newDocument("the Installer", i)
	if err != nil {
		return "", asProblem(err)
	}
	id, _, err := p.keep(r, d)
	if err != nil {
		return "", asProblem(err)
	}
	note(r, id)
	return id, nil
}

// Base implements page.Source.
func (p pages) Base(r *http.Request) string { return releasePath(r) }

// Links implements page.Source.
func (p pages) Links(r *http.Request, id string) (script, bundle string, err error) {
	base, err := p.baseURL(r)
	return base + releasePath(r) + "/" + id, base + "/bundle" + releasePath(r) + "/" + id + packageSuffix, err
}
