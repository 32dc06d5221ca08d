package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/component"
)

// Place is where a component is.
type Place struct {
	Image    string `json:"image,omitempty"` // reference
	Digest   string `json:"digest,omitempty"`
	Platform string `json:"platform,omitempty"`
	Layer    string `json:"layer,omitempty"`  // digest
	File     string `json:"file,omitempty"`   // the program, or the package database; outside of images the file of the bundle
	Inside   string `json:"inside,omitempty"` // the program in an archive or package outside of images
}

// String says where that is, in words.
func (p Place) String() string {
	where := strings.Join(slices.DeleteFunc([]string{p.Image, p.File, p.Inside}, func(part string) bool { return part == "" }), " ")
	if p.Layer != "" {
		where += " of layer " + p.Layer
	}
	return where
}

// Occurrence is a component and all places that have it.
type Occurrence struct {
	component.Component
	Places []Place
	Texts  []string // digests of the texts that belong to it, in order
}

// Occurrences lists the components of an inventory, each once, in order. The same component with other licenses is another one.
func (i *Inventory) Occurrences() []*Occurrence {
	all := make(map[string]*Occurrence)
	add := func(c component.Component, p Place, texts ...string) {
		key := strings.Join([]string{c.URL(), c.Source, c.SourceVersion, strings.Join(c.Licenses, "\n")}, " ")
		if all[key] == nil {
			all[key] = &Occurrence{Component: c}
		}
		all[key].Places = append(all[key].Places, p)
		all[key].Texts = append(all[key].Texts, texts...)
	}
	for _, image := range i.Images {
		at := Place{Image: image.Ref, Digest: image.Digest, Platform: image.Platform}
		for _, p := range image.Packages {
			at.Layer, at.File = p.Layer, p.Path
			add(p.Component, at, p.Texts...)
		}
		for _, p := range image.Programs {
			at.Layer, at.File = p.Layer, p.Path
			for _, m := range p.Modules {
				add(m, at)
			}
		}
	}
	for _, f := range i.Files {
		if f.Package != nil {
			var texts []string
			for _, text := range f.Texts {
				texts = append(texts, text.SHA256)
			}
			add(*f.Package, Place{File: f.Path}, texts...)
		}
		for _, p := range f.Programs {
			for _, m := range p.Modules {
				add(m, Place{File: f.Path, Inside: p.Path})
			}
		}
	}
	var sorted []*Occurrence
	for _, key := range slices.Sorted(maps.Keys(all)) {
		slices.Sort(all[key].Texts)
		all[key].Texts = slices.Compact(all[key].Texts)
		sorted = append(sorted, all[key])
	}
	return sorted
}
