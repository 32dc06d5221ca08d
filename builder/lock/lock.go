// Package lock reads and writes Manifest.lock, which records what the names in a Manifest resolved to: a tag to a digest, a
// URL to a sha256, operating system packages to exact files. A build that follows a lock resolves no mutable name.
//
// The package reads, writes and compares locks. It does not resolve names, and does not read the Manifest.
package lock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/manifest"
)

// FileName is the name of the lock, in the folder of the Manifest.
const FileName = manifest.FileName + ".lock"

// Format is the version of the format.
const Format = "sealift.dev/lock/v1"

// Lock is one Manifest.lock. The zero value locks nothing.
type Lock struct {
	Images  []Image  `yaml:"images,omitempty"`       // in order of Ref
	Assets  []Asset  `yaml:"assets,omitempty"`       // in order of URL
	Charts  []Chart  `yaml:"charts,omitempty"`       // in order of Repository, Name and Version
	Targets []Target `yaml:"hostPackages,omitempty"` // in order of Name and Platform
}

func find[T any](list []T, is func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return found, false
}

// header explains the file to people who open it.
const header = "# What the Manifest beside this file stood for when it was locked. Written by sealift lock: keep it with the\n" +
	"# Manifest, do not edit it, and build with --locked to get the same package again.\n"

// document is the file's structure. Empty lists are omitted.
type document struct {
	Format string `yaml:"format"`
	Lock   `yaml:",inline"`
}

// Encode writes the lock in canonical form: the same lock yields the same bytes.
func (l Lock) Encode(w io.Writer) error {
	l.sort()
	if _, err := io.WriteString(w, header); err != nil {
		return err
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	return errors.Join(enc.Encode(document{Format: Format, Lock: l}), enc.Close())
}

// sort sorts copies of all lists.
func (l *Lock) sort() {
	l.Images = slices.SortedFunc(slices.Values(l.Images), func(a, b Image) int { return cmp.Compare(a.Ref, b.Ref) })
	l.Assets = slices.SortedFunc(slices.Values(l.Assets), func(a, b Asset) int { return cmp.Compare(a.URL, b.URL) })
	l.Charts = slices.SortedFunc(slices.Values(l.Charts), func(a, b Chart) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	l.Targets = slices.SortedFunc(slices.Values(l.Targets), func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Platform, b.Platform))
	})
	for i := range l.Targets {
		t := &l.Targets[i]
		t.Names = slices.Sorted(slices.Values(t.Names))
		t.Packages = slices.SortedFunc(slices.Values(t.Packages), func(a, b Package) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Version, b.Version))
		})
	}
}

// Save writes the lock to path if it differs, and returns whether it did. It replaces the file atomically.
func (l Lock) Save(path string) (changed bool, err error) {
	var data bytes.Buffer
	if err := l.Encode(&data); err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, data.Bytes()) {
		return false, nil
	}
	if err := atomicfile.Write(path, data.Bytes()); err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	return true, nil
}

// section is the part of a lock for one kind of directive. It is a list.
type section struct {
	name string
	// read adds one element of the list to a lock, and reports mistakes to p.
	read func(p *parser, n *yaml.Node, l *Lock)
	// facts returns the locked facts by the name that they are for.
	facts func(l Lock) map[string]string
}

// sections registers the sections, in the order in which changes are reported.
func sections() []section {
	return []section{imageSection(), assetSection(), chartSection(), targetSection()}
}

// Diff returns the changes from one lock to another, section by section.
func Diff(was, now Lock) []manifest.Change {
	var list []manifest.Change
	for _, s := range sections() {
		list = append(list, changes(s.facts(was), s.facts(now))...)
	}
	return list
}

// changes compares the entries of one kind in two locks.
func changes(was, now map[string]string) []manifest.Change {
	var list []manifest.Change
	names := slices.Compact(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(now))...))))
	for _, name := range names {
		if was[name] != now[name] {
			list = append(list, manifest.Change{What: name, Was: was[name], Now: now[name]})
		}
	}
	return list
}
