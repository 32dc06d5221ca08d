package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// builds are the ways to put images from a registry into one archive.
func (b *bench) builds(registry, kind string) []benchCase {
	crane, skopeo, kurl := "mkdir oci images\n", "mkdir oci\n", "mkdir images\n"
	for n, ref := range images {
		from := registry + "/" + ref
		crane += fmt.Sprintf("%s pull --insecure --platform linux/amd64 --format=oci %s oci\n", b.crane, from)
		skopeo += fmt.Sprintf("skopeo copy --quiet --src-tls-verify=false docker://%s oci:oci:%d\n", from, n)
		kurl += fmt.Sprintf("%s pull --insecure --platform linux/amd64 --format=tarball %s image.tar && gzip <image.tar >images/%d.tar.gz && rm image.tar\n", b.crane, from, n)
	}
	most := 0.0
	if registry == b.registry {
		most = 1
	}
	return []benchCase{ // 'sealift build' syncs its package, so the others sync theirs
		{name: "crane pull --format=oci, tar", script: crane + "tar cf out.tar oci && sync out.tar"},
		{name: "sealift build", prepare: func(dir string) error { return b.addOn(dir, registry) }, script: b.buildScript() + " && mv bench-1.0.tar.gz out.tar.gz", limits: limits{wall: most, peak: 128}},
		{name: "skopeo copy, tar", script: skopeo + "tar cf out.tar oci && sync out.tar"},
		{name: "kURL's pipeline, " + kind, script: kurl + "tar cf - images | gzip >out.tar.gz && sync out.tar.gz"},
	}
}

// buildScript builds the add-on in the current folder.
func (b *bench) buildScript() string {
	return b.sealift + " build addons/bench/1.0 --config sealift.yaml --cache cache --target debian-12 --out . >/dev/null"
}

// rebuilds compares a build with the same build again.
func (b *bench) rebuilds() []benchCase {
	first := func(dir string) error { return b.addOn(dir, b.registry) }
	again := func(dir string) error {
		if err := first(dir); err != nil {
			return err
		}
		return b.shell(dir, b.buildScript())
	}
	return []benchCase{
		{name: "sealift build, cold", prepare: first, script: b.buildScript()}, {name: "again, nothing changed", prepare: again, script: b.buildScript(), limits: limits{wall: 0.05}},
	}
}

// resume kills a build after half of its bytes have arrived, and builds again. It reports how many bytes were fetched
// twice.
func (b *bench) resume(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir.Path(), "resume-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := b.addOn(dir, b.slow); err != nil {
		return err
	}
	start := b.proxy.passed.Load()
	if err := b.shell(dir, b.buildScript()); err != nil {
		return err
	}
	whole := b.proxy.passed.Load() - start
	if err := b.shell(dir, "rm -rf cache bench-1.0.tar.gz"); err != nil {
		return err
	}
	start = b.proxy.passed.Load()
	build := exec.CommandContext(ctx, "bash", "-c", "exec "+b.buildScript())
	build.Dir = dir
	if err := build.Start(); err != nil {
		return err
	}
	for b.proxy.passed.Load()-start < whole/2 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	_ = build.Process.Kill()
	_ = build.Wait()
	if err := b.shell(dir, b.buildScript()); err != nil {
		return err
	}
	again := b.proxy.passed.Load() - start - whole
	fmt.Printf("kill -9 when half of %.1f MB had arrived, and build again: %.1f MB were fetched twice\n", float64(whole)/1e6, float64(max(again, 0))/1e6)
	return nil
}

// addOn writes an add-on with the images, and the mirrors of a registry.
func (b *bench) addOn(dir, registry string) error {
	var manifest, mirrors strings.Builder
	mirrors.WriteString("mirrors:\n")
	hosts := map[string]bool{}
	for n, ref := range images {
		fmt.Fprintf(&manifest, "image image-%d %s\n", n, ref)
		if host, _, _ := strings.Cut(ref, "/"); !hosts[host] {
			hosts[host] = true
			fmt.Fprintf(&mirrors, "  %s: http://%s/%s\n", host, registry, host)
		}
	}
	for name, text := range map[string]string{
		"addons/bench/1.0/Manifest": manifest.String(), "addons/bench/1.0/install.sh": "", "sealift.yaml": mirrors.String(),
		"installer.yaml": "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: bench}\nspec:\n  bench: {version: '1.0'}\n",
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// bundles compare the assembly of a bundle with copying its bytes.
func (b *bench) bundles() []benchCase {
	built := b.dir.File("built")
	prepare := func(dir string) error {
		if err := b.addOn(dir, b.registry); err != nil {
			return err
		}
		return b.packed(dir, built)
	}
	return []benchCase{
		{name: "cat of the same bytes", prepare: prepare, script: fmt.Sprintf("cat %s/bench-1.0.tar.gz >out.tar.gz && sync out.tar.gz", built)},
		{name: "sealift bundle", prepare: prepare, script: fmt.Sprintf("%s bundle -f installer.yaml --store %s --sealift installer.yaml --out out.tar.gz >/dev/null", b.sealift, built), limits: limits{wall: 1}},
		{name: "sealift bundle --verify=false", prepare: prepare, script: fmt.Sprintf("%s bundle -f installer.yaml --store %s --sealift installer.yaml --out out.tar.gz --verify=false >/dev/null", b.sealift, built)},
	}
}

// packed builds the package once, into a folder that all cases share.
func (b *bench) packed(dir, built string) error {
	if _, err := os.Stat(filepath.Join(built, "bench-1.0.tar.gz")); err == nil {
		return nil
	}
	if err := b.addOn(dir, b.registry); err != nil {
		return err
	}
	return b.shell(dir, fmt.Sprintf("mkdir -p %s && %s build addons/bench/1.0 --config sealift.yaml --cache cache --target debian-12 --out %s", built, b.sealift, built))
}
