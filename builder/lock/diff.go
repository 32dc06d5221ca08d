package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/manifest"
)

// Diff returns the changes from one lock to another: images, assets, then packages.
func Diff(was, now Lock) []manifest.Change {
	return slices.Concat(
		changes(was.images(), now.images()),
		changes(was.assets(), now.assets()),
		changes(was.packages(), now.packages()),
	)
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

// images maps each image, and each of its platforms, to its digest.
func (l Lock) images() map[string]string {
	m := make(map[string]string)
	for _, i := range l.Images {
		m["image "+i.Ref] = i.Digest
		for platform, digest := range i.Platforms {
			if digest != i.Digest { // an image without an index is its own and only platform
				m["image "+i.Ref+" "+platform] = digest
			}
		}
	}
	return m
}

func (l Lock) assets() map[string]string {
	m := make(map[string]string)
	for _, a := range l.Assets {
		m["asset "+a.URL] = fmt.Sprintf("sha256:%s (%d bytes)", a.SHA256, a.Size)
	}
	return m
}

// packages maps each package to its versions, and to its content if the version alone would not show a change. It maps each
// target to the requested names.
func (l Lock) packages() map[string]string {
	m := make(map[string]string)
	for _, t := range l.Targets {
		target := t.Name + " " + t.Platform
		m[target] = "packages for " + strings.Join(t.Names, " ")
		for _, p := range t.Packages {
			what := target + " " + p.Name
			is := fmt.Sprintf("%s %s (sha256:%s)", p.Version, p.Arch, p.SHA256[:min(12, len(p.SHA256))])
			if p.Key != "" {
				is += " signed by keys sha256:" + p.Key[:min(12, len(p.Key))]
			}
			if other := m[what]; other != "" {
				is = other + ", " + is
			}
			m[what] = is
		}
	}
	return m
}
