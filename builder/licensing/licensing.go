// Package licensing lists the licenses of the software in a bundle, with the texts that its files have, and holds them against a policy.
//
// It repeats what packages, labels and files state, in SPDX's words. What states nothing is unknown, and listed first: that software has no
// license is never a result. The package gives no advice on law.
package licensing

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
)

// Kind is what a component is.
type Kind string

// The kinds of component.
const (
	AddOn   Kind = "add-on"  // its addon.yaml states the license of the software
	Image   Kind = "image"   // its label org.opencontainers.image.licenses states it
	Package Kind = "package" // of an operating system, in an image or for a host
	Module  Kind = "module"  // of Go, linked into a program
	File    Kind = "file"    // with the words of a license, that belongs to no package and no module
)

// Component is software that has one license, and where it is.
type Component struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	System  string `json:"system,omitempty"`
	URL     string `json:"package,omitempty"` // package URL
	// License is an SPDX expression, or NOASSERTION if nothing is stated.
	License string            `json:"license"`
	Places  []inventory.Place `json:"places,omitempty"`
	Texts   []string          `json:"texts,omitempty"` // digests, sha256 in hex
}

// Unknown reports whether no license is stated.
func (c Component) Unknown() bool { return c.License == license.NoAssertion }

// License is one license of a bundle.
type License struct {
	ID string `json:"id"` // SPDX identifier, with its exception; NOASSERTION for components that state none
	// Name is the original name of a LicenseRef identifier.
	Name string `json:"name,omitempty"`
	// Components are names and versions.
	Components []string `json:"components,omitempty"`
	// Texts are the digests of files with the words of this license.
	Texts []string `json:"texts,omitempty"`
}

// Text is the content of files with a license or a notice, once.
type Text struct {
	SHA256   string            `json:"sha256"`
	Size     int64             `json:"size"` // bytes
	Licenses []string          `json:"licenses,omitempty"`
	Places   []inventory.Place `json:"places"`
}

// Report lists the licenses of a bundle. Lists are sorted, and what is unknown comes first.
type Report struct {
	Licenses   []License   `json:"licenses"`
	Components []Component `json:"components"`
	Texts      []Text      `json:"texts"`
	// Unread lists what could not be read. Licenses may be missing there.
	Unread []string `json:"unread,omitempty"`

	names map[string]string // of LicenseRef identifiers
}

// maxMeta is the largest addon.yaml, in bytes.
const maxMeta = 64 << 10

// Of lists the licenses of a bundle that has an inventory.
func Of(from *bundle.Archive, listed *inventory.Inventory) (*Report, error) {
	r := &Report{Licenses: []License{}, Components: []Component{}, Texts: []Text{}, names: make(map[string]string)}
	for _, p := range from.Index.Packages {
		if err := r.addOn(from, p); err != nil {
			return nil, err
		}
	}
	for _, o := range listed.Occurrences() {
		c := Component{Kind: Package, Name: o.Name, Version: o.Version, System: o.System, URL: o.URL(), License: r.expression(o.Licenses), Places: o.Places, Texts: o.Texts}
		if o.Kind == component.Go {
			c.Kind = Module
		}
		r.Components = append(r.Components, c)
	}
	texts := make(map[string]*Text)
	for _, i := range listed.Images {
		at := inventory.Place{Image: i.Ref, Digest: i.Digest, Platform: i.Platform}
		r.Components = append(r.Components, Component{Kind: Image, Name: i.Ref, URL: component.ImageURL(i.Ref, i.Digest), License: r.expression(i.Licenses), Places: []inventory.Place{at}})
		owned := make(map[string]bool)
		for _, p := range i.Packages {
			for _, text := range p.Texts {
				owned[text] = true
			}
		}
		r.texts(texts, at, i.Texts, owned)
		for _, reason := range i.Unknown {
			r.Unread = append(r.Unread, fmt.Sprintf("image %s %s: %s", i.Ref, i.Platform, reason))
		}
	}
	for _, f := range listed.Files {
		owned := make(map[string]bool)
		for _, text := range f.Texts {
			owned[text.SHA256] = f.Package != nil
		}
		r.texts(texts, inventory.Place{File: f.Path}, f.Texts, owned)
		for _, reason := range f.Unknown {
			r.Unread = append(r.Unread, fmt.Sprintf("file %s: %s", f.Path, reason))
		}
	}
	for _, sum := range slices.Sorted(maps.Keys(texts)) {
		r.Texts = append(r.Texts, *texts[sum])
	}
	r.finish()
	return r, nil
}

// expression is license.Expression, and remembers the names of identifiers.
func (r *Report) expression(statements []string) string {
	expression, refs := license.Expression(statements)
	maps.Copy(r.names, refs)
	return expression
}

// addOn adds the license that the addon.yaml of a package states. An add-on of kURL has no such file.
func (r *Report) addOn(from *bundle.Archive, p bundle.PackageInfo) error {
	name := path.Join(p.Dir(), catalog.MetaFile)
	var meta struct {
		License string `yaml:"license"`
	}
	if _, ok := from.Entry(name); ok {
		data, err := from.ReadFile(name, maxMeta)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(data, &meta); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	r.Components = append(r.Components, Component{Kind: AddOn, Name: p.Name, Version: p.Version, License: r.expression([]string{meta.License}), Places: []inventory.Place{{File: p.Dir()}}})
	return nil
}

// texts adds the texts of one place. One that no package and no module owns is a component if its words are those of licenses.
func (r *Report) texts(all map[string]*Text, at inventory.Place, found []inventory.Text, owned map[string]bool) {
	for _, text := range found {
		place := at
		place.Layer = text.Layer
		if at.File == "" {
			place.File = text.Path
		} else {
			place.Inside = text.Path
		}
		if all[text.SHA256] == nil {
			all[text.SHA256] = &Text{SHA256: text.SHA256, Size: text.Size, Licenses: text.Licenses}
		}
		all[text.SHA256].Places = append(all[text.SHA256].Places, place)
		if len(text.Licenses) > 0 && text.Module == "" && !owned[text.SHA256] && !license.IsCommon(text.Path) {
			r.Components = append(r.Components, Component{Kind: File, Name: text.Path, License: r.expression(text.Licenses), Places: []inventory.Place{place}, Texts: []string{text.SHA256}})
		}
	}
}

// rank orders what is unknown before the rest.
func rank(id string) int {
	if id == license.NoAssertion {
		return 0
	}
	return 1
}

// finish sorts the components and lists the licenses.
func (r *Report) finish() {
	slices.SortStableFunc(r.Components, func(a, b Component) int {
		return cmp.Or(cmp.Compare(rank(a.License), rank(b.License)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.URL, b.URL), cmp.Compare(a.License, b.License))
	})
	all := make(map[string]*License)
	of := func(id string) *License {
		if all[id] == nil {
			all[id] = &License{ID: id, Name: r.names[id]}
		}
		return all[id]
	}
	for _, c := range r.Components {
		for _, id := range license.IDs(c.License) {
			of(id).Components = append(of(id).Components, strings.TrimSpace(c.Name+" "+c.Version))
		}
	}
	for _, text := range r.Texts {
		for _, id := range license.IDs(r.expression(text.Licenses)) {
			if id != license.NoAssertion {
				of(id).Texts = append(of(id).Texts, text.SHA256)
			}
		}
	}
	for _, l := range all {
		slices.Sort(l.Components)
		l.Components = slices.Compact(l.Components)
		r.Licenses = append(r.Licenses, *l)
	}
	slices.SortFunc(r.Licenses, func(a, b License) int { return cmp.Or(cmp.Compare(rank(a.ID), rank(b.ID)), cmp.Compare(a.ID, b.ID)) })
	slices.Sort(r.Unread)
}

// Count returns how many components state a license, and how many do not.
func (r *Report) Count() (known, unknown int) {
	for _, c := range r.Components {
		if c.Unknown() {
			unknown++
		}
	}
	return len(r.Components) - unknown, unknown
}
