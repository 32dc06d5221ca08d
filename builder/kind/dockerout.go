package kind

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/sealift/sealift/builder/dockerfile"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// dockeroutKind carries what Dockerfiles write.
type dockeroutKind struct {
	options Options
	source  *dockerfile.Source
	images  *imageKind // resolves base images
}

type dockeroutPart struct {
	Dockerouts []dockerfile.Build `json:"dockerouts,omitempty"` // in the order of the Manifest, and of platforms

	kind *dockeroutKind
	more []dockerout // of each of Dockerouts
	made []bundle.File
}

var _ interface {
	kind
	skipper
	comparer
	keeper
} = (*dockeroutKind)(nil)

var _ interface {
	part
	warner
	runner
	packer
	documenter
} = (*dockeroutPart)(nil)

// dockerout is the result of a dockerout directive on one platform.
type dockerout struct {
	pos     diag.Pos
	bases   []image.Resolved // the images that the Dockerfile names
	outputs []dockerfile.Output
}

// wanted lists the directives to run: those for the targets of the build.
func (k *dockeroutKind) wanted(m *manifest.File) []manifest.Dockerout {
	return slices.DeleteFunc(m.Dockerouts(), func(d manifest.Dockerout) bool {
		return !slices.ContainsFunc(k.options.Targets, func(t hostpkg.Target) bool { return t.Name == d.Target })
	})
}

func (k *dockeroutKind) resolve(ctx context.Context, r *resolving) part {
	wanted, platforms := k.wanted(r.addOn.Manifest), k.options.Platforms
	n := len(wanted) * len(platforms)
	p := &dockeroutPart{kind: k, Dockerouts: make([]dockerfile.Build, n), more: make([]dockerout, n)}
	for i, d := range wanted {
		for j, platform := range platforms {
			build, more := &p.Dockerouts[i*len(platforms)+j], &p.more[i*len(platforms)+j]
			more.pos = d.Pos
			r.begin(d.Pos, func() error { return k.one(ctx, r, d, platform, build, more) })
		}
	}
	return p
}

func (k *dockeroutKind) one(ctx context.Context, r *resolving, d manifest.Dockerout, platform string, build *dockerfile.Build, more *dockerout) error {
	plan, err := settle(r.addOn, d, platform)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Dockerfile, err)
	}
	var bases []dockerfile.Base
	for _, written := range plan.Bases {
		ref, err := image.ParseReference(written)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Dockerfile, err)
		}
		resolved, err := k.images.one(ctx, r, manifest.Image{Ref: written})
		if err != nil {
			return err
		}
		more.bases = append(more.bases, resolved)
		bases = append(bases, dockerfile.Base{Written: written, Repository: ref.Repository(), Digest: resolved.Root.Digest})
	}
	var files *dockerfile.Context
	if d.Context != "" {
		if files, err = dockerfile.ReadContext(ctx, r.addOn.Repository.Path(), d.Context); err != nil {
			return err
		}
	}
	*build, err = dockerfile.New(d.Target, d.Dockerfile, platform, argsOf(d), plan, bases, files)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Dockerfile, err)
	}
	return nil
}

func argsOf(d manifest.Dockerout) map[string]string {
	args := make(map[string]string)
	for _, arg := range d.BuildArgs {
		args[arg.Name] = arg.Value
	}
	return args
}

// settle reads the Dockerfile of a directive, whose path is relative to the root of the repository (kURL §1.2).
func settle(a AddOn, d manifest.Dockerout, platform string) (*dockerfile.Plan, error) {
	content, err := a.Repository.Open(d.Dockerfile)
	if err != nil {
		return nil, fmt.Errorf("%w; the path of a Dockerfile is relative to the root of the repository, here %s", err, a.Repository.Path())
	}
	defer func() { _ = content.Close() }()
	file, err := dockerfile.Parse(content)
	if err != nil {
		return nil, err
	}
	return file.Settle(argsOf(d), platform)
}

func (k *dockeroutKind) leftOut(m *manifest.File, list *diag.List) {
	for _, d := range m.Dockerouts() {
		if !slices.ContainsFunc(k.wanted(m), func(w manifest.Dockerout) bool { return w.Pos == d.Pos }) {
			warnLeftOut(list, d, k.options.Targets)
		}
	}
}

// NeedsEngine reports whether a build runs Dockerfiles of a Manifest.
func (s *Set) NeedsEngine(m *manifest.File) bool {
	return len((&dockeroutKind{options: s.options}).wanted(m)) > 0
}

func (k *dockeroutKind) changes(m *manifest.File, _, _ bundle.Contents) []string {
	if len(m.Dockerouts()) == 0 {
		return nil
	}
	return []string{"dockerout: what a Dockerfile writes is known only after it has run"}
}

// keep keeps the base images of Dockerfiles, for targets and platforms other than those of this build.
func (k *dockeroutKind) keep(a AddOn, now *lock.Lock, was lock.Lock) {
	platforms := make(map[string]bool)
	for _, i := range was.Images {
		for platform := range i.Platforms {
			platforms[platform] = true
		}
	}
	named, unreadable := make(map[string]bool), false
	for _, d := range a.Manifest.Dockerouts() {
		for platform := range platforms {
			bases, err := basesOf(a, d, platform)
			for _, ref := range bases {
				named[ref] = true
			}
			unreadable = unreadable || err != nil // then it may name any of them
		}
	}
	for _, i := range was.Images {
		if _, ok := now.Image(i.Ref); !ok && (named[i.Ref] || unreadable) {
			now.Images = append(now.Images, i)
		}
	}
}

// basesOf returns the images that the Dockerfile of a directive names, as a lock has them.
func basesOf(a AddOn, d manifest.Dockerout, platform string) (refs []string, err error) {
	plan, err := settle(a, d, platform)
	if err != nil {
		return nil, err
	}
	for _, written := range plan.Bases {
		ref, err := image.ParseReference(written)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref.String())
	}
	return refs, nil
}

// warn names base images whose signatures the policy demands: nothing is attached to what a package does not carry.
func (p *dockeroutPart) warn(_ *manifest.File, list *diag.List) {
	for _, d := range p.more {
		for _, base := range d.bases {
			if policy := p.kind.options.Signatures; policy.Demands(ocilayout.Repository(base.Ref)) {
				list.Warnf(d.pos, "name its digest in the Dockerfile", "base image %s: %s demands its signature, and signatures of base images are not checked", base.Ref, policy.File())
			}
		}
	}
}

// lock locks base images, which the package does not carry.
func (p *dockeroutPart) lock(l *lock.Lock) {
	for _, d := range p.more {
		lockImages(l, d.bases)
	}
}

// run runs the Dockerfiles, or takes their earlier output from the cache.
func (p *dockeroutPart) run(ctx context.Context, wrong *faults) error {
	for i, build := range p.Dockerouts {
		var err error
		if p.more[i].outputs, err = p.kind.source.Files(ctx, build); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			wrong.add(p.more[i].pos, err)
		}
	}
	return nil
}

// files lists the files that Dockerfiles wrote. They are in the folder that their directive names, as in kURL (kURL §1.5). A
// file that the builds for several platforms share is stored once.
func (p *dockeroutPart) files(dir string) ([]bundle.File, error) {
	packed := make(map[string]bundle.File)
	p.made = nil
	for i, build := range p.Dockerouts {
		for _, output := range p.more[i].outputs {
			f := output.Pack(path.Join(dir, build.Target), p.kind.options.Cache)
			before, ok := packed[f.Path]
			if ok && before.SHA256 != f.SHA256 {
				return nil, fmt.Errorf("two builds write %s with different content; give the files different names, or build one package for each platform", f.Path)
			}
			if !ok {
				packed[f.Path] = f
				p.made = append(p.made, f)
			}
		}
	}
	return p.made, nil
}

func (p *dockeroutPart) materials(_ context.Context, _ bundle.Package, s *sbom.Subject) error {
	s.Files = append(s.Files, p.made...)
	return nil
}
