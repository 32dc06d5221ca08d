package main

import (
	"context"
	"fmt"
	"os"
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
func (b *bench) additions(ctx context.Context, from, to string) ([]benchCase, error) {
	containerd, flannel := demoAddOns()[0], demoAddOns()[2]
	packages, err := b.catalogue(ctx, "kubernetes/"+from, "kubernetes/"+to, containerd, flannel)
	if err != nil {
		return nil, err
	}
	earlier, later := b.dir.File("earlier.tar.gz"), b.dir.File("later.yaml")
	if err := b.bundle(ctx, packages, b.dir.File("earlier.yaml"), installerOf("kubernetes/"+from, containerd, flannel), earlier); err != nil {
		return nil, err
	}
	if err := os.WriteFile(later, []byte(installerOf("kubernetes/"+to, containerd, flannel)), 0o600); err != nil {
		return nil, err
	}
	return []benchCase{
		b.assembled("--since", later, packages, "--since "+earlier, limits{}),
		b.assembled("--since --patch", later, packages, "--since "+earlier+" --patch", limits{bytes: 0.35}),
	}, nil
}
