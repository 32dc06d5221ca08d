package spec

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/sealift/sealift/internal/diag"
)

// Patch is a part of an Installer that changes another Installer. Its add-ons need no version; otherwise it is written like
// an Installer.
type Patch struct {
	installer *Installer
	removed   []string // names of add-ons whose version it empties
}

// LoadPatch reads the patch at path.
func LoadPatch(path string) (*Patch, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	}
	defer f.Close()
	return ParsePatch(path, f)
}

// ParsePatch reads a patch as Parse reads an Installer.
func ParsePatch(name string, r io.Reader) (*Patch, error) {
	p := parser{partial: true}
	i, err := p.read(name, r)
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		return nil, err
	}
	return &Patch{i, p.removed}, nil
}

// Merge returns the Installer with patches applied in order. An option of a patch replaces the Installer's; an option that the patch omits
// or sets to null stays (kURL §2.2). An add-on with an empty version in the patch is removed. New add-ons are last. The Installer itself is
// not changed. The error is a diag.Errors.
func (i *Installer) Merge(patches ...*Patch) (*Installer, error) {
	merged := i.Clone()
	for _, p := range patches {
		merged.AddOns = slices.DeleteFunc(merged.AddOns, func(a AddOn) bool { return slices.Contains(p.removed, a.Name) })
		merged.Migrated = append(merged.Migrated, p.installer.Migrated...)
		for _, a := range p.installer.AddOns {
			merged.mergeAddOn(a)
		}
		for _, s := range p.installer.Sections {
			merged.set(s.Key, s.Pos, s.Options)
		}
	}
	var p parser
	for _, a := range merged.AddOns {
		if a.Version == "" {
			p.Errorf(a.Pos, "write "+a.Key+": {version: …}", "%s is new and has no version", a.Key)
		}
	}
	p.collisions(merged)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return merged, nil
}

// Clone returns a copy whose sections, add-ons and options can be changed.
func (i *Installer) Clone() *Installer {
	c := *i
	c.AddOns, c.Sections, c.Migrated = slices.Clone(i.AddOns), slices.Clone(i.Sections), slices.Clone(i.Migrated)
	for n := range c.AddOns {
		c.AddOns[n].Options = maps.Clone(c.AddOns[n].Options)
	}
	for n := range c.Sections {
		c.Sections[n].Options = maps.Clone(c.Sections[n].Options)
	}
	return &c
}

func (i *Installer) mergeAddOn(a AddOn) {
	at := slices.IndexFunc(i.AddOns, func(b AddOn) bool { return b.Name == a.Name })
	if at < 0 {
		a.Options = maps.Clone(a.Options)
		i.AddOns = append(i.AddOns, a)
		return
	}
	if a.Version != "" {
		i.AddOns[at].Version = a.Version
	}
	i.AddOns[at].Options = over(i.AddOns[at].Options, a.Options)
	i.AddOns[at].Words = slices.DeleteFunc(slices.Clone(i.AddOns[at].Words), func(option string) bool { return a.Options[option] != nil })
}

// set adds options to a key without a version. It creates the key if it is absent.
func (i *Installer) set(key string, pos diag.Pos, options Options) {
	at := slices.IndexFunc(i.Sections, func(s Section) bool { return s.Key == key })
	if at < 0 {
		i.Sections = append(i.Sections, Section{Key: key, Options: maps.Clone(options), Pos: pos})
		return
	}
	i.Sections[at].Options = over(i.Sections[at].Options, options)
}

func over(base, options Options) Options {
	if base == nil {
		base = Options{}
	}
	maps.Copy(base, options)
	return base
}
