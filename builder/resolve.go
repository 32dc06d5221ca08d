package builder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/diag"
	"github.com/sealift/sealift/manifest"
)

// Resolution is what the directives of a Manifest stand for: every name with a digest.
type Resolution struct {
	Images       []image.Resolved   `json:"images,omitempty"`       // in the order of the Manifest
	Assets       []asset.Resolved   `json:"assets,omitempty"`       // in the order of the Manifest
	HostPackages []hostpkg.Resolved `json:"hostPackages,omitempty"` // in the order of targets and file names
	Targets      []string           `json:"targets,omitempty"`      // those that a directive reaches
}

// faults collects what is wrong from several goroutines.
type faults struct {
	mu   sync.Mutex
	list diag.List
}

// add puts an error at the place that it comes from. Errors may bring advice of their own.
func (f *faults) add(pos diag.Pos, err error) {
	var advised interface{ Hint() string }
	hint := ""
	if errors.As(err, &advised) {
		hint = advised.Hint()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list.Errorf(pos, hint, "%v", err)
}

// resolve finds out what every directive stands for, all of them at once, and reports all that cannot be resolved.
func (b *Builder) resolve(ctx context.Context, a *addOn) (Resolution, error) {
	images, assets := a.manifest.Images(), a.manifest.Assets()
	r := Resolution{Images: make([]image.Resolved, len(images)), Assets: make([]asset.Resolved, len(assets))}
	var wrong faults
	var group errgroup.Group
	group.SetLimit(b.jobs)
	collect := b.resolvePackages(ctx, &group, a.manifest.HostPackages(), &wrong)
	for i, d := range images {
		group.Go(func() error {
			var err error
			if r.Images[i], err = b.resolveImage(ctx, d); err != nil {
				wrong.add(d.Pos, err)
			}
			return nil
		})
	}
	for i, d := range assets {
		group.Go(func() error {
			var err error
			if r.Assets[i], err = b.assets.Resolve(ctx, a.dir, d.Name, d.Source); err != nil {
				wrong.add(d.Pos, err)
			}
			return nil
		})
	}
	if err := errors.Join(group.Wait(), context.Cause(ctx)); err != nil {
		return Resolution{}, err
	}
	if err := wrong.list.Err(); err != nil {
		return Resolution{}, err
	}
	r.HostPackages, r.Targets = collect()
	return r, nil
}

func (b *Builder) resolveImage(ctx context.Context, d manifest.Image) (image.Resolved, error) {
	ref, err := image.ParseReference(d.Ref)
	if err != nil {
		return image.Resolved{}, err
	}
	r, err := b.images.Resolve(ctx, ref, b.platforms)
	r.ID, r.NoRemoteLoad = d.ID, d.NoRemoteLoad
	return r, err
}

// resolvePackages starts the resolution for every target and architecture, each in one transaction. What it returns
// collects the outcome when group is done.
func (b *Builder) resolvePackages(ctx context.Context, group *errgroup.Group, directives []manifest.HostPackage, wrong *faults) func() ([]hostpkg.Resolved, []string) {
	var targets []string
	var parts [][]hostpkg.Resolved
	for _, target := range b.targets {
		wanted := reaching(directives, target)
		if len(wanted) == 0 {
			continue
		}
		targets = append(targets, target.Name)
		for _, platform := range b.platforms {
			i := len(parts)
			parts = append(parts, nil)
			group.Go(func() error {
				found, err := b.resolveTarget(ctx, target, platform, wanted)
				if err != nil {
					blame(wrong, wanted, err)
				}
				parts[i] = found
				return nil
			})
		}
	}
	return func() ([]hostpkg.Resolved, []string) {
		all := slices.Concat(parts...)
		slices.SortFunc(all, hostpkg.Compare)
		// Packages for all architectures come with each of them.
		return slices.CompactFunc(all, func(a, b hostpkg.Resolved) bool { return hostpkg.Compare(a, b) == 0 }), targets
	}
}

func reaching(directives []manifest.HostPackage, target hostpkg.Target) []manifest.HostPackage {
	return slices.DeleteFunc(slices.Clone(directives), func(d manifest.HostPackage) bool { return !target.Reaches(d.Keyword()) })
}

func (b *Builder) resolveTarget(ctx context.Context, target hostpkg.Target, platform string, wanted []manifest.HostPackage) ([]hostpkg.Resolved, error) {
	arch, err := target.Architecture(platform)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range wanted {
		names = append(names, d.Name)
	}
	return b.packages.Resolve(ctx, target, arch, names)
}

// blame puts an error at the lines of the packages that it is about, or else at the first line of all.
func blame(wrong *faults, wanted []manifest.HostPackage, err error) {
	var unknown *hostpkg.Error
	if !errors.As(err, &unknown) || len(unknown.Names) == 0 {
		wrong.add(wanted[0].Pos, err)
		return
	}
	for _, d := range wanted {
		if message, ok := unknown.Names[d.Name]; ok {
			wrong.add(d.Pos, fmt.Errorf("package %s for %s: %s", d.Name, unknown.Target, message))
		}
	}
}

// unreached warns of what this build leaves out, and passes on what deserves a look in the Manifest.
func (b *Builder) unreached(m *manifest.File) []diag.Finding {
	var names []string
	for _, t := range b.targets {
		names = append(names, t.Name)
	}
	var list diag.List
	for _, d := range m.HostPackages() {
		reached := slices.ContainsFunc(b.targets, func(t hostpkg.Target) bool { return t.Reaches(d.Keyword()) })
		if !reached {
			list.Warnf(d.Pos, "", "%s %s is left out: it is not for %s", d.Keyword(), d.Name, strings.Join(names, ", "))
		}
	}
	for _, d := range m.Dockerouts() {
		list.Warnf(d.Pos, "", "%s %s is left out: it is not for %s", d.Keyword(), d.Target, strings.Join(names, ", "))
	}
	for _, f := range manifest.Check(m) {
		if f.Severity == diag.Warning {
			list.Warnf(f.Pos, f.Hint, "%s", f.Message)
		}
	}
	return list.Findings()
}
