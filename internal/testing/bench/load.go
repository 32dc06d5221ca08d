package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/testing/containerd"
)

// loads compares the ways to load the demo's images into containerd: from one bundle, whole or lean, and as kURL carries them. Each case
// has a fresh containerd.
func (b *bench) loads(ctx context.Context) ([]benchCase, error) {
	whole, err := b.demoBundle(ctx, "")
	if err != nil {
		return nil, err
	}
	lean, err := b.demoBundle(ctx, "--lean")
	if err != nil {
		return nil, err
	}
	archives, err := b.dockerArchives(whole)
	if err != nil {
		return nil, err
	}
	fresh := func(dir string) (err error) {
		if b.containerd, err = containerd.Start(ctx, nil); err != nil {
			return err
		}
		return os.Symlink(b.containerd.Socket, filepath.Join(dir, "socket"))
	}
	pid := func() int { return b.containerd.PID() }
	stop := func() {
		if b.containerd != nil {
			_ = b.containerd.Stop()
			b.containerd = nil
		}
	}
	load := func(bundle string) string {
		return fmt.Sprintf("%s images load %s --containerd $PWD/socket 2>/dev/null", b.sealift, bundle)
	}
	again := func(dir string) error {
		if err := fresh(dir); err != nil {
			return err
		}
		return b.shell(dir, load(lean))
	}
	kurl := fmt.Sprintf("for f in %s/*.tar.gz; do gunzip -c $f | %s -a $PWD/socket -n k8s.io images import - >/dev/null; done", archives, b.ctr)
	return []benchCase{
		{name: "gunzip | ctr images import, one by one", prepare: fresh, script: kurl, daemon: pid, after: stop},
		{name: "sealift images load, whole", prepare: fresh, script: load(whole), daemon: pid, after: stop},
		{name: "sealift images load, lean", prepare: fresh, script: load(lean), daemon: pid, after: stop, limits: limits{wall: 0.35, peak: 128}},
		{name: "again, all present", prepare: again, script: load(lean), daemon: pid, after: stop, limits: limits{wall: 0.05}},
	}, nil
}

// dockerArchives writes the images of a bundle into a folder, as kURL's packages have them.
func (b *bench) dockerArchives(bundle string) (dir string, err error) {
	refs, err := b.imagesOf(bundle)
	if err != nil {
		return "", err
	}
	dir = b.dir.File("archives")
	script := "mkdir -p " + dir + "\n"
	for n, ref := range refs {
		script += fmt.Sprintf("%s pull --insecure --platform linux/amd64 --format=tarball %s/%s image.tar && gzip <image.tar >%s/%d.tar.gz && rm image.tar\n", b.crane, b.registry, ref, dir, n)
	}
	return dir, b.shell(b.dir.Path(), script)
}
