package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/semver"

	"github.com/sealift/sealift/internal/releases"
)

// assembled is a case that makes a bundle of an Installer. Its first run, which fills the cache, is not measured.
func (b *bench) assembled(name, installer, packages, flags string, most limits) benchCase {
	script := fmt.Sprintf("%s bundle -f %s --store %s --cache %s --out out %s >/dev/null", b.sealift, installer, packages, b.dir.File("cache"), flags)
	filled := false
	return benchCase{name: name, script: script, limits: most, prepare: func(dir string) error {
		if filled {
			return nil
		}
		filled = true
		return b.shell(dir, script+"; rm -r out")
	}}
}

// forms are the forms of the demo's bundle: whole, lean, and with parity.
func (b *bench) forms(ctx context.Context) ([]benchCase, error) {
	if _, err := b.demoBundle(ctx, ""); err != nil {
		return nil, err
	}
	installer, packages := b.dir.File("demo.yaml"), b.dir.File("packages")
	return []benchCase{
		b.assembled("whole", installer, packages, "", limits{}),
		b.assembled("--lean", installer, packages, "--lean", limits{wall: 1.1, bytes: 0.7}),
		b.assembled("--split 20M --parity 15%", installer, packages, "--split 20M --parity 15%", limits{}),
	}, nil
}

// additions are the ways to bring a release of Kubernetes to a cluster with an older one: whole files that changed, whose layers have
// gzip, and patches of them.
func (b *bench) additions(ctx context.Context, from, to releases.Release) (cases []benchCase, err error) {
	m, err := serve(ctx, from, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	containerd, flannel := demoAddOns()[0], demoAddOns()[2]
	packages, err := b.packagesOf(ctx, m, from.Folder(), to.Folder(), "addons/"+containerd, "addons/"+flannel)
	if err != nil {
		return nil, err
	}
	earlier, later, err := b.upgrade(ctx, packages, from, to)
	if err != nil {
		return nil, err
	}
	return []benchCase{
		b.assembled("--since", later, packages, "--since "+earlier, limits{}),
		b.assembled("--since --patch", later, packages, "--since "+earlier+" --patch", limits{bytes: 0.35}),
	}, nil
}

// upgrade makes the bundle of a cluster with one release of Kubernetes, and the Installer of the same cluster with another.
func (b *bench) upgrade(ctx context.Context, packages string, from, to releases.Release) (earlier, later string, err error) {
	installer := func(r releases.Release) string {
		return installerOf("kubernetes/"+r.Version, demoAddOns()[0], demoAddOns()[2])
	}
	earlier, later = b.dir.File("earlier.tar.gz"), b.dir.File("later.yaml")
	if err := b.bundle(ctx, packages, b.dir.File("earlier.yaml"), installer(from), earlier); err != nil {
		return "", "", err
	}
	return earlier, later, os.WriteFile(later, []byte(installer(to)), 0o600)
}

// patchReleases are the newest two releases of Kubernetes in the lab that have the same minor version.
func patchReleases() (from, to releases.Release) {
	minor := func(r releases.Release) string { return semver.MajorMinor("v" + r.Version) }
	list := releases.Of("kubernetes", releases.Lab)
	for n, r := range list[1:] {
		if minor(r) == minor(list[n]) {
			from, to = list[n], r
		}
	}
	return from, to
}

// patchRelease brings the next patch release of Kubernetes to a cluster. The patches are made in each round, and applied.
func (b *bench) patchRelease(ctx context.Context, from, to releases.Release) (cases []benchCase, err error) {
	m, err := serve(ctx, from, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	addOns := b.dir.File("addons")
	if err := command(ctx, []string{"mkdir", addOns}, []string{"cp", "-a", "addons/kubernetes", addOns}); err != nil {
		return nil, err
	}
	containerd, flannel := demoAddOns()[0], demoAddOns()[2]
	folders := []string{"addons/" + containerd, "addons/" + flannel}
	for _, r := range []releases.Release{from, to} {
		if err := command(ctx, []string{b.sealift, "addon", "new-version", r.Name, r.Version, "--no-lock", "--addons", addOns, "--set", r.Parameters()}); err != nil {
			return nil, err
		}
		folders = append(folders, filepath.Join(addOns, r.Name, r.Version))
	}
	packages, err := b.packagesOf(ctx, m, folders...)
	if err != nil {
		return nil, err
	}
	earlier, later, err := b.upgrade(ctx, packages, from, to)
	if err != nil {
		return nil, err
	}
	bundle := func(flags string) string {
		return fmt.Sprintf("%s bundle -f %s --store %s --cache cache --out out --since %s %s >/dev/null", b.sealift, later, packages, earlier, flags)
	}
	made := func(dir string) error { return b.shell(dir, bundle("--patch")) }
	return []benchCase{
		{name: "the package, whole", script: fmt.Sprintf("cp %s/kubernetes-%s.tar.gz out", packages, to.Version)},
		{name: "--since", script: bundle("")},
		{name: "--since --patch, nothing in the cache", script: bundle("--patch"), limits: limits{bytes: 0.12, seconds: 60}},
		{name: "verify --base, which makes all files", prepare: made, script: b.sealift + " verify out --base " + earlier + " >/dev/null", limits: limits{seconds: 15}},
	}, nil
}
