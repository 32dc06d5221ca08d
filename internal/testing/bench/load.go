package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/testing/containerd"
)

// loads compares the ways to load images into containerd: from one package, and as kURL carries them. Each case has a fresh
// containerd.
func (b *bench) loads(ctx context.Context) []benchCase {
	archives := b.dir.File("archives")
	built := b.dir.File("built")
	fresh := func(dir string) error {
		if err := b.packed(dir, built); err != nil {
			return err
		}
		if err := b.dockerArchives(archives); err != nil {
			return err
		}
		c, err := containerd.Start(ctx, nil)
		if err != nil {
			return err
		}
		b.containerd = c
		return os.Symlink(c.Socket, filepath.Join(dir, "socket"))
	}
	stop := func() {
		if b.containerd != nil {
			_ = b.containerd.Stop()
			b.containerd = nil
		}
	}
	load := fmt.Sprintf("%s images load %s/bench-1.0.tar.gz --containerd $PWD/socket 2>/dev/null", b.sealift, built)
	again := func(dir string) error {
		if err := fresh(dir); err != nil {
			return err
		}
		return b.shell(dir, load)
	}
	kurl := fmt.Sprintf("for f in %s/*.tar.gz; do gunzip -c $f | %s -a $PWD/socket -n k8s.io images import - >/dev/null; done", archives, b.ctr)
	return []benchCase{
		{name: "gunzip | ctr images import, one by one", prepare: fresh, script: kurl, after: stop},
		{name: "sealift images load", prepare: fresh, script: load, after: stop},
		{name: "again, all present", prepare: again, script: load, after: stop},
	}
}

// dockerArchives writes the images as kURL's packages have them, once.
func (b *bench) dockerArchives(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	script := "mkdir -p " + dir + ".new\n"
	for n, ref := range images {
		script += fmt.Sprintf("%s pull --insecure --platform linux/amd64 --format=tarball %s/%s image.tar && gzip <image.tar >%s.new/%d.tar.gz && rm image.tar\n", b.crane, b.registry, ref, dir, n)
	}
	return b.shell(b.dir.Path(), script+"mv "+dir+".new "+dir)
}
