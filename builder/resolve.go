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
	"github.com/sealift/sealift/builder/dockerfile"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// Resolution is what the directives of a Manifest stand for: every name with a digest.
type Resolution struct {
	Images       []image.Resolved   `json:"images,omitempty"`       // in the order of the Manifest
	Assets       []asset.Resolved   `json:"assets,omitempty"`       // as wantedAssets lists them
	HostPackages []hostpkg.Resolved `json:"hostPackages,omitempty"` // in the order of targets and file names
	Targets      []string           `json:"targets,omitempty"`      // those that a directive reaches
	Dockerouts   []dockerfile.Build `json:"dockerouts,omitempty"`   // in the order of the Manifest, and of platforms

	dockerouts []dockerout // more of each of Dockerouts
	solutions  []solution  // of which HostPackages is the union
	assetsFrom []diag.Pos  // of the directive that each of Assets is for
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

// resolve finds out what every directive stands for, all of them at once, and reports all that cannot be resolved. What
// is pinned is not asked for.
func (b *Builder) resolve(ctx context.Context, a *addOn, p pins) (Resolution, error) {
	images := a.manifest.Images()
	assets, err := b.wantedAssets(a.manifest.Assets())
	if err != nil {
		return Resolution{}, err
	}
	r := Resolution{Images: make([]image.Resolved, len(images)), Assets: make([]asset.Resolved, len(assets))}
	var wrong faults
	var group errgroup.Group
	group.SetLimit(b.jobs)
	r.solutions, r.Targets = b.wantedPackages(a.manifest.HostPackages())
	for i := range r.solutions {
		group.Go(func() error {
			if err := b.solve(ctx, &r.solutions[i], p); err != nil {
				blame(&wrong, r.solutions[i].wanted, err)
			}
			return nil
		})
	}
	b.resolveDockerouts(ctx, &group, a, p, &r, &wrong)
	for i, d := range images {
		group.Go(func() error {
			var err error
			if r.Images[i], err = b.resolveImage(ctx, d, p); err != nil {
				wrong.add(d.Pos, err)
			}
			return nil
		})
	}
	for i, w := range assets {
		r.assetsFrom = append(r.assetsFrom, w.directive.Pos)
		group.Go(func() error {
			var err error
			if r.Assets[i], err = b.resolveAsset(ctx, a.open, w, p); err != nil {
				wrong.add(w.directive.Pos, err)
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
	for _, s := range r.solutions {
		r.HostPackages = append(r.HostPackages, s.packages...)
	}
	slices.SortFunc(r.HostPackages, hostpkg.Compare)
	// Packages for all architectures come with each of them.
	r.HostPackages = slices.CompactFunc(r.HostPackages, func(a, b hostpkg.Resolved) bool { return hostpkg.Compare(a, b) == 0 })
	return r, nil
}

// wantedPackages lists the transactions that package directives ask for, one for each target and platform, and the names
// of those targets.
func (b *Builder) wantedPackages(directives []manifest.HostPackage) (list []solution, targets []string) {
	for _, target := range b.targets {
		wanted := reaching(directives, target)
		if len(wanted) == 0 {
			continue
		}
		targets = append(targets, target.Name)
		for _, platform := range b.platforms {
			list = append(list, newSolution(target, platform, wanted))
		}
	}
	return list, targets
}

func reaching(directives []manifest.HostPackage, target hostpkg.Target) []manifest.HostPackage {
	return slices.DeleteFunc(slices.Clone(directives), func(d manifest.HostPackage) bool { return !target.Reaches(d.Keyword()) })
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
		if slices.ContainsFunc(b.wantedDockerouts(m), func(w manifest.Dockerout) bool { return w.Pos == d.Pos }) {
			continue
		}
		list.Warnf(d.Pos, "", "%s %s is left out: it is not for %s", d.Keyword(), d.Target, strings.Join(names, ", "))
	}
	for _, f := range manifest.Check(m) {
		if f.Severity == diag.Warning {
			list.Warnf(f.Pos, f.Hint, "%s", f.Message)
		}
	}
	return list.Findings()
}
