package lock

import (
	"maps"
	"slices"

	"github.com/sealift/sealift/manifest"
)

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
