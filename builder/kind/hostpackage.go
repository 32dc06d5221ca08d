package kind

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

const packagesDir = "packages"

// hostPackageKind carries packages of operating systems with their dependencies.
type hostPackageKind struct {
	options Options
	source  *hostpkg.Source
}

type hostPackagePart struct {
	HostPackages []hostpkg.Resolved `json:"hostPackages,omitempty"` // in the order of targets and file names
	Targets      []string           `json:"targets,omitempty"`      // those that a directive reaches

	kind      *hostPackageKind
	solutions []solution // HostPackages is their union
}

var _ interface {
	kind
	skipper
	comparer
	maker
	keeper
} = (*hostPackageKind)(nil)

var _ interface {
	part
	finisher
	downloader
	counter
	describer
	packer
	documenter
} = (*hostPackagePart)(nil)

// solution is the result of resolving an operating system's packages on one platform, all in one transaction.
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
	slices.Sort(s.names)
	s.names = slices.Compact(s.names)
	return s
}

func (k *hostPackageKind) resolve(ctx context.Context, r *resolving) part {
	p := &hostPackagePart{kind: k}
	p.solutions, p.Targets = k.wanted(r.addOn.Manifest.HostPackages())
	for i := range p.solutions {
		s := &p.solutions[i]
		r.group.Go(func() error {
			if err := k.solve(ctx, r, s); err != nil {
				blame(r.faults, s.wanted, err)
			}
			return nil
		})
	}
	return p
}

// wanted lists the transactions of package directives, one for each target and platform, and the names of those targets.
func (k *hostPackageKind) wanted(directives []manifest.HostPackage) (list []solution, targets []string) {
	for _, target := range k.options.Targets {
		wanted := slices.DeleteFunc(slices.Clone(directives), func(d manifest.HostPackage) bool { return !target.Reaches(d.Keyword()) })
		if len(wanted) == 0 {
			continue
		}
		targets = append(targets, target.Name)
		for _, platform := range k.options.Platforms {
			list = append(list, newSolution(target, platform, wanted))
		}
	}
	return list, targets
}

func (k *hostPackageKind) solve(ctx context.Context, r *resolving, s *solution) error {
	arch, err := s.target.Architecture(s.platform)
	if err != nil {
		return err
	}
	locked, ok := r.pins.Lock.Target(s.target.Name, s.platform)
	if ok && slices.Equal(locked.Names, s.names) {
		for _, one := range locked.Packages {
			s.packages = append(s.packages, hostpkg.Resolved{Target: s.target.Name, Package: one})
		}
		if r.pins.Compared {
			return nil
		}
		return k.source.CheckLocked(ctx, s.target, arch, s.packages)
	}
	if err := r.missing("what %s on %s needs for %s", s.target.Name, s.platform, strings.Join(s.names, " ")); err != nil {
		return err
	}
	s.packages, err = k.source.Resolve(ctx, s.target, arch, s.names)
	return err
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

func (k *hostPackageKind) leftOut(m *manifest.File, list *diag.List) {
	for _, d := range m.HostPackages() {
		if !slices.ContainsFunc(k.options.Targets, func(t hostpkg.Target) bool { return t.Reaches(d.Keyword()) }) {
			warnLeftOut(list, d, k.options.Targets)
		}
	}
}

// warnLeftOut warns that a directive is for none of the targets.
func warnLeftOut(list *diag.List, d manifest.Directive, targets []hostpkg.Target) {
	var names []string
	for _, t := range targets {
		names = append(names, t.Name)
	}
	list.Warnf(d.Position(), "", "%s %s is left out: it is not for %s", d.Keyword(), d.Describe().Name, strings.Join(names, ", "))
}

func (k *hostPackageKind) changes(_ *manifest.File, was, now bundle.Contents) []string {
	return compare("host package", was.HostPackages, now.HostPackages, func(p bundle.HostPackage) string {
		return p.Target + " " + p.Name + " " + p.Arch
	})
}

// made includes what the repository of each target has beside the packages.
func (k *hostPackageKind) made(p bundle.PackageInfo, name string) bool {
	whole := path.Join(p.Dir(), name)
	return slices.ContainsFunc(p.HostPackages, func(h bundle.HostPackage) bool { return h.Path == whole }) ||
		slices.ContainsFunc(p.Targets, func(target string) bool {
			file, ok := strings.CutPrefix(name, path.Join(packagesDir, target)+"/")
			return ok && hostpkg.IsIndex(file)
		})
}

// keep keeps the locks of other targets and platforms.
func (k *hostPackageKind) keep(a AddOn, now *lock.Lock, was lock.Lock) {
	for _, t := range was.Targets {
		reached := func(d manifest.HostPackage) bool { return k.reaches(d, t.Name) }
		if _, ok := now.Target(t.Name, t.Platform); !ok && slices.ContainsFunc(a.Manifest.HostPackages(), reached) {
			now.Targets = append(now.Targets, t)
		}
	}
}

// reaches reports whether a directive's packages belong on a target, which may be one that this configuration does not have.
func (k *hostPackageKind) reaches(d manifest.HostPackage, target string) bool {
	if n := slices.IndexFunc(k.options.Known, func(t hostpkg.Target) bool { return t.Name == target }); n >= 0 {
		return k.options.Known[n].Reaches(d.Keyword())
	}
	return d.Kind.Reaches(target)
}

func (p *hostPackagePart) finish(*manifest.File) {
	for _, s := range p.solutions {
		p.HostPackages = append(p.HostPackages, s.packages...)
	}
	slices.SortFunc(p.HostPackages, hostpkg.Compare)
	// Packages for all architectures are included in each of them.
	p.HostPackages = slices.CompactFunc(p.HostPackages, func(a, b hostpkg.Resolved) bool { return hostpkg.Compare(a, b) == 0 })
}

func (p *hostPackagePart) transfers() []transfer {
	var list []transfer
	for _, one := range p.HostPackages {
		list = append(list, transfer{"sha256:" + one.SHA256, one.Size, p.solutions[0].wanted[0].Pos, func(ctx context.Context) (fetch.Stored, error) {
			return p.kind.source.Fetch(ctx, one)
		}})
	}
	return list
}

func (p *hostPackagePart) fetched() (n int64) {
	for _, one := range p.HostPackages {
		n += one.Fetched
	}
	return n
}

func (p *hostPackagePart) lock(l *lock.Lock) {
	for _, s := range p.solutions {
		t := lock.Target{Name: s.target.Name, Platform: s.platform, Names: s.names}
		for _, one := range s.packages {
			t.Packages = append(t.Packages, one.Package)
		}
		l.Targets = append(l.Targets, t)
	}
}

// of returns the packages of one target.
func (p *hostPackagePart) of(target string) []hostpkg.Resolved {
	return slices.DeleteFunc(slices.Clone(p.HostPackages), func(p hostpkg.Resolved) bool { return p.Target != target })
}

func (p *hostPackagePart) describe(described *bundle.Package) {
	described.Targets = p.Targets
	dir := path.Join(bundle.AddOnDir(described.Name, described.Version), packagesDir)
	for _, target := range p.Targets {
		for _, one := range p.of(target) {
			described.Contents.HostPackages = append(described.Contents.HostPackages, one.Describe(path.Join(dir, target)))
		}
	}
}

func (p *hostPackagePart) files(dir string) ([]bundle.File, error) {
	var list []bundle.File
	for _, target := range p.Targets {
		files, err := hostpkg.Repository(path.Join(dir, packagesDir, target), p.of(target), p.kind.options.Cache)
		if err != nil {
			return nil, err
		}
		list = append(list, files...)
	}
	return list, nil
}
