package builder

import (
	"context"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/dockerfile"
	"github.com/sealift/sealift/builder/hostpkg"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// dockerout is what a dockerout directive stands for on one platform.
type dockerout struct {
	pos     diag.Pos
	bases   []image.Resolved // the images that the Dockerfile names
	outputs []dockerfile.Output
}

// wantedDockerouts lists the directives to run: those for targets that are built for.
func (b *Builder) wantedDockerouts(m *manifest.File) []manifest.Dockerout {
	return slices.DeleteFunc(m.Dockerouts(), func(d manifest.Dockerout) bool {
		return !slices.ContainsFunc(b.targets, func(t hostpkg.Target) bool { return t.Name == d.Target })
	})
}

// resolveDockerouts starts the resolution of every wanted directive on every platform.
func (b *Builder) resolveDockerouts(ctx context.Context, group *errgroup.Group, a *addOn, p pins, r *Resolution, wrong *faults) {
	wanted := b.wantedDockerouts(a.manifest)
	n := len(wanted) * len(b.platforms)
	r.Dockerouts, r.dockerouts = make([]dockerfile.Build, n), make([]dockerout, n)
	for i, d := range wanted {
		for j, platform := range b.platforms {
			build, out := &r.Dockerouts[i*len(b.platforms)+j], &r.dockerouts[i*len(b.platforms)+j]
			out.pos = d.Pos
			group.Go(func() error {
				if err := b.resolveDockerout(ctx, a, d, platform, p, build, out); err != nil {
					wrong.add(d.Pos, err)
				}
				return nil
			})
		}
	}
}

func (b *Builder) resolveDockerout(ctx context.Context, a *addOn, d manifest.Dockerout, platform string, p pins, build *dockerfile.Build, out *dockerout) error {
	plan, err := settle(a, d, platform)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Dockerfile, err)
	}
	var bases []dockerfile.Base
	for _, written := range plan.Bases {
		ref, err := image.ParseReference(written)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Dockerfile, err)
		}
		resolved, err := b.resolveImage(ctx, manifest.Image{Ref: written}, p)
		if err != nil {
			return err
		}
		out.bases = append(out.bases, resolved)
		bases = append(bases, dockerfile.Base{Written: written, Repository: ref.Repository(), Digest: resolved.Root.Digest})
	}
	files, err := contextOf(ctx, a, d)
	if err != nil {
		return err
	}
	*build, err = dockerfile.New(d.Target, d.Dockerfile, platform, argsOf(d), plan, bases, files)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Dockerfile, err)
	}
	return nil
}

// contextOf reads the files that a Dockerfile may see, nil when there are none.
func contextOf(ctx context.Context, a *addOn, d manifest.Dockerout) (*dockerfile.Context, error) {
	if d.Context == "" {
		return nil, nil
	}
	return dockerfile.ReadContext(ctx, a.repository.Path(), d.Context)
}

func argsOf(d manifest.Dockerout) map[string]string {
	args := make(map[string]string)
	for _, arg := range d.BuildArgs {
		args[arg.Name] = arg.Value
	}
	return args
}

// settle reads the Dockerfile of a directive, whose path is relative to the root of the repository (kURL §1.2).
func settle(a *addOn, d manifest.Dockerout, platform string) (*dockerfile.Plan, error) {
	content, err := a.repository.Open(d.Dockerfile)
	if err != nil {
		return nil, fmt.Errorf("%w; the path of a Dockerfile is relative to the root of the repository, here %s", err, a.repository.Path())
	}
	defer func() { _ = content.Close() }()
	file, err := dockerfile.Parse(content)
	if err != nil {
		return nil, err
	}
	return file.Settle(argsOf(d), platform)
}

// runDockerouts runs the resolved Dockerfiles, or takes from the cache what they wrote before.
func (b *Builder) runDockerouts(ctx context.Context, r Resolution) error {
	var wrong faults
	for i, build := range r.Dockerouts {
		var err error
		if r.dockerouts[i].outputs, err = b.dockerfiles.Files(ctx, build); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			wrong.add(r.dockerouts[i].pos, err)
		}
	}
	return wrong.list.Err()
}

// packDockerouts lists the files that Dockerfiles wrote. They lie in the folder that their directive names, as kURL has
// them (kURL §1.5). What the builds for several platforms have in common is there once.
func (b *Builder) packDockerouts(dir string, r Resolution) ([]bundle.File, error) {
	packed := make(map[string]bundle.File)
	var files []bundle.File
	for i, build := range r.Dockerouts {
		for _, output := range r.dockerouts[i].outputs {
			f := output.Pack(path.Join(dir, build.Target), b.cache)
			before, ok := packed[f.Path]
			if ok && before.SHA256 != f.SHA256 {
				return nil, fmt.Errorf("%s is written by two builds, each with other content; give the files names of their own, or build one package for each platform", f.Path)
			}
			if !ok {
				packed[f.Path] = f
				files = append(files, f)
			}
		}
	}
	return files, nil
}
