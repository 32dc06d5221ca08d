package archive

import (
	"maps"
	"slices"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/internal/platform"
)

// PlatformSize is the size of one platform in an archive for several.
type PlatformSize struct {
	Platform string `json:"platform"`
	// Size is the part of the archive that nodes of the platform use, in bytes. Alone is the part that no other nodes use.
	Size  int64 `json:"size"`
	Alone int64 `json:"alone"`
}

// platformSizes measures the parts of an archive. An archive for one platform has none.
func platformSizes(a *bundle.Archive) ([]PlatformSize, error) {
	if len(a.Index.Platforms) < 2 {
		return nil, nil
	}
	only := make(map[string][]string)
	for _, p := range a.Index.Packages {
		of, err := ocilayout.Platforms(a, p)
		if err != nil {
			return nil, err
		}
		maps.Copy(only, of)
		for _, h := range p.HostPackages {
			if of, ok := platform.OfArch(h.Arch); ok {
				only[h.Path] = []string{of}
			}
		}
	}
	for _, p := range platform.OfHosts() {
		for _, name := range []string{bundle.BinaryName, bundle.PreflightName, bundle.ConsoleName} {
			only[bundle.ProgramPath(name, p)] = []string{p}
		}
	}
	addPatches(only, a.Index)
	var sizes []PlatformSize
	for _, p := range a.Index.Platforms {
		s := PlatformSize{Platform: p}
		for _, e := range a.Index.Entries {
			platforms, some := only[e.Path]
			if some && !slices.Contains(platforms, p) {
				continue
			}
			s.Size += e.Length
			if len(platforms) == 1 {
				s.Alone += e.Length
			}
		}
		sizes = append(sizes, s)
	}
	return sizes, nil
}

// addPatches adds the patches: the nodes that use a file use the patch that makes it.
func addPatches(only map[string][]string, x bundle.Index) {
	for _, e := range x.Entries {
		if e.Patch == nil {
			continue
		}
		users, some := only[e.Path]
		if !some {
			users = x.Platforms
		}
		for _, p := range users {
			if !slices.Contains(only[e.Patch.Path], p) {
				only[e.Patch.Path] = append(only[e.Patch.Path], p)
			}
		}
	}
}
