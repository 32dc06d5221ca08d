package builder

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/manifest"
)

// pins is what a resolution takes from a lock instead of asking for it. The zero value takes nothing.
type pins struct {
	lock lock.Lock
	only bool   // what is not in the lock is refused
	dir  string // of the add-on, as the user named it
}

// missingError says that a lock lacks what a build needs that follows it strictly.
type missingError struct {
	dir  string
	what string
}

func (e *missingError) Error() string {
	return fmt.Sprintf("%s is not in %s", e.what, filepath.Join(e.dir, lock.FileName))
}

// Hint says what to do next.
func (e *missingError) Hint() string { return "lock it with sealift lock " + e.dir }

// missing is an error if nothing may be asked for beyond the lock.
func (p pins) missing(format string, args ...any) error {
	if !p.only {
		return nil
	}
	return &missingError{dir: p.dir, what: fmt.Sprintf(format, args...)}
}

func (b *Builder) resolveImage(ctx context.Context, d manifest.Image, p pins) (r image.Resolved, err error) {
	ref, err := image.ParseReference(d.Ref)
	if err != nil {
		return image.Resolved{}, err
	}
	if locked, ok := p.lock.Image(ref.String()); ok {
		root := image.Descriptor{MediaType: locked.MediaType, Digest: locked.Digest, Size: locked.Size}
		if r, err = b.images.ResolvePinned(ctx, ref, root, b.platforms); err == nil {
			err = agree(locked, r)
		}
	} else {
		if ref.Digest() == "" { // with one it is locked by the Manifest itself
			err = p.missing("image %s", ref)
		}
		if err == nil {
			r, err = b.images.Resolve(ctx, ref, b.platforms)
		}
	}
	r.ID, r.NoRemoteLoad = d.ID, d.NoRemoteLoad
	return r, err
}

// agree refuses a lock whose digests contradict one another, as after an edit by hand.
func agree(locked lock.Image, r image.Resolved) error {
	for _, m := range r.Manifests {
		if want, ok := locked.Platforms[m.Platform]; ok && want != m.Digest {
			return fmt.Errorf("image %s: %s is locked to %s for %s, but what the image is locked to, %s, has %s; lock it anew with sealift lock --update",
				r.Ref, lock.FileName, want, m.Platform, r.Root.Digest, m.Digest)
		}
	}
	return nil
}

// wantedAsset is one file that an asset directive asks for.
type wantedAsset struct {
	manifest.Asset // with the architecture filled in

	directive manifest.Asset
}

// wantedAssets lists the files that asset directives ask for: one each, or one for each architecture where that is part
// of the source. Several that have one name cannot be in one package.
func (b *Builder) wantedAssets(directives []manifest.Asset) ([]wantedAsset, error) {
	var list []wantedAsset
	var wrong faults
	for _, d := range directives {
		names := make(map[string]bool)
		seen := make(map[string]bool)
		for _, platform := range b.platforms {
			arch := strings.Split(platform, "/")[1]
			w := wantedAsset{Asset: d, directive: d}
			w.Name, w.Source = strings.ReplaceAll(d.Name, manifest.ArchWord, arch), strings.ReplaceAll(d.Source, manifest.ArchWord, arch)
			if key := w.Name + " " + w.Source; !seen[key] {
				seen[key] = true
				if names[w.Name] {
					wrong.list.Errorf(d.Pos, "put "+manifest.ArchWord+" into its name, or build one package for each platform with --per-platform",
						"asset %s is another file for each of %s", d.Name, strings.Join(b.platforms, ", "))
					break
				}
				names[w.Name] = true
				list = append(list, w)
			}
		}
	}
	return list, wrong.list.Err()
}

func (b *Builder) resolveAsset(ctx context.Context, open asset.Opener, w wantedAsset, p pins) (asset.Resolved, error) {
	if asset.IsURL(w.Source) {
		if locked, ok := p.lock.Asset(w.Source); ok {
			return asset.Resolved{Name: w.Name, Source: w.Source, SHA256: locked.SHA256, Size: locked.Size}, nil
		}
		if err := p.missing("asset %s", w.Source); err != nil {
			return asset.Resolved{}, err
		}
	}
	return b.assets.Resolve(ctx, open, w.Name, w.Source)
}

// solution is what an operating system's packages were resolved to on one platform, all in one transaction.
type solution struct {
	target   hostpkg.Target
	platform string
	wanted   []manifest.HostPackage
	names    []string           // of those, in order, each once
	packages []hostpkg.Resolved // once it is solved
}

func newSolution(target hostpkg.Target, platform string, wanted []manifest.HostPackage) solution {
	s := solution{target: target, platform: platform, wanted: wanted}
	for _, d := range wanted {
		s.names = append(s.names, d.Name)
	}
	s.names = distinct(s.names)
	return s
}

func (b *Builder) solve(ctx context.Context, s *solution, p pins) error {
	arch, err := s.target.Architecture(s.platform)
	if err != nil {
		return err
	}
	locked, ok := p.lock.Target(s.target.Name, s.platform)
	if ok && slices.Equal(locked.Names, s.names) {
		for _, one := range locked.Packages {
			s.packages = append(s.packages, hostpkg.Resolved{
				Target: s.target.Name, Name: one.Name, Version: one.Version, Arch: one.Arch, URL: one.URL, SHA256: one.SHA256, Size: one.Size, Key: one.Key,
			})
		}
		return b.packages.CheckLocked(ctx, s.target, arch, s.packages)
	}
	if err := p.missing("what %s on %s needs for %s", s.target.Name, s.platform, strings.Join(s.names, " ")); err != nil {
		return err
	}
	s.packages, err = b.packages.Resolve(ctx, s.target, arch, s.names)
	return err
}
