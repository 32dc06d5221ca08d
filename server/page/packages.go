package page

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/store/release"
)

// addOn is one add-on with its versions, newest first, and unstable ones last.
type addOn struct {
	Name        string
	Description string // of the first version
	Versions    []release.Package
}

// byName groups the packages of a release.
func byName(index release.Index) []addOn {
	by := map[string]*addOn{}
	for _, p := range index.Packages {
		if by[p.Name] == nil {
			by[p.Name] = &addOn{Name: p.Name}
		}
		by[p.Name].Versions = append(by[p.Name].Versions, p)
	}
	var all []addOn
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.SortFunc(by[name].Versions, func(a, b release.Package) int { return catalog.NewestFirst(a.Version, b.Version) })
		all = append(all, *by[name])
	}
	return all
}

// packages lists the packages of the store.
func (s *Site) packages(w http.ResponseWriter, r *http.Request) error {
	index, err := s.source.List(r)
	if err != nil {
		return err
	}
	all := byName(index)
	for n := range all {
		meta, err := s.meta(r, all[n].Versions[0])
		if err != nil {
			all[n].Description = "not readable: " + err.Error()
			continue
		}
		all[n].Description = meta.Description
	}
	return s.show(w, r, "packages.html", http.StatusOK, "Packages", all)
}

// opened is the data of a package's page.
type opened struct {
	Meta      catalog.Meta
	Index     bundle.Index
	Info      bundle.PackageInfo
	Digest    string
	Signed    bool
	Bytes     int64 // size of images, host packages and assets
	Targets   []target
	Materials bool // whether there is a bill of materials
}

// target is an operating system with its packages.
type target struct {
	Name     string
	Packages []bundle.HostPackage
}

func (s *Site) onePackage(w http.ResponseWriter, r *http.Request) error {
	p, err := s.open(r)
	if err != nil {
		return s.absent(w, r, err)
	}
	defer func() { _ = p.Close() }()
	info := p.Index.Packages[0]
	view := opened{Index: p.Index, Info: info, Digest: p.Digest, Signed: p.Signed()}
	if view.Meta, err = catalog.Read(p.FS(), info.Name, info.Version); err != nil {
		return err
	}
	for _, e := range p.Index.Entries {
		view.Bytes += e.Size
	}
	by := map[string][]bundle.HostPackage{}
	for _, h := range info.HostPackages {
		by[h.Target] = append(by[h.Target], h)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.SortFunc(by[name], func(a, b bundle.HostPackage) int { return cmp.Compare(a.Name, b.Name) })
		view.Targets = append(view.Targets, target{name, by[name]})
	}
	_, view.Materials = p.Entry(path.Join(info.Dir(), materialsName))
	return s.show(w, r, "package.html", http.StatusOK, info.Name+" "+info.Version, view)
}

// parsedIndex is the memory of an open package as a multiple of its index: its text and its values.
const parsedIndex = 4

// open opens the package in the path.
func (s *Site) open(r *http.Request) (Package, error) {
	name, version := r.PathValue("name"), r.PathValue("version")
	p, err := s.source.Open(r.Context(), r, name, version)
	if err != nil {
		return Package{}, err
	}
	if info := p.Index.Packages[0]; info.Name != name || info.Version != version {
		return Package{}, errors.Join(fmt.Errorf("the package contains %s %s; publish it again: %w", info.Name, info.Version, fs.ErrNotExist), p.Close())
	}
	index, _ := p.Raw()
	if err := connlimit.Grow(r, parsedIndex*int64(len(index))); err != nil {
		return Package{}, errors.Join(err, p.Close())
	}
	return p, nil
}

// absent returns a 404 if err says that the package does not exist.
func (s *Site) absent(w http.ResponseWriter, r *http.Request, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.show(w, r, "absent.html", http.StatusNotFound, "Not here", nil)
}

// materialsName is the name of the bill of materials in the folder of an add-on, SPDX 2.3 in JSON.
const materialsName = "sbom.spdx.json"

// materials streams the bill of materials. If the package is damaged, it closes the connection before the end.
func (s *Site) materials(w http.ResponseWriter, r *http.Request) error {
	p, err := s.open(r)
	if err != nil {
		return s.absent(w, r, err)
	}
	defer func() { _ = p.Close() }()
	data, err := p.OpenEntry(path.Join(p.Index.Packages[0].Dir(), materialsName))
	if err != nil {
		return s.absent(w, r, err)
	}
	defer data.Close()
	w.Header().Set("Content-Type", "application/spdx+json")
	if _, err := io.Copy(w, data); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
