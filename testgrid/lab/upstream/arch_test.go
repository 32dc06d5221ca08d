package upstream

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/testgrid/lab/debian"
)

func TestForeignComponentsAreUniqueAndComplete(t *testing.T) {
	w := workshop(t)
	seen, keys := map[string]bool{}, map[string]bool{}
	all := Components()
	for _, c := range append(all, foreign(all)...) {
		if seen[c.ID()] {
			t.Errorf("%s is there twice", c.ID())
		}
		seen[c.ID()] = true
		key, err := w.key(c)
		if err != nil {
			t.Error(err)
		}
		if keys[key] {
			t.Errorf("%s has the key of another component", c.ID())
		}
		keys[key] = true
		if m, ok := c.Recipe.(GoModule); ok && m.Arch != c.Arch {
			t.Errorf("%s is compiled for %q", c.ID(), m.Arch)
		}
	}
	known := byID(all)
	for _, r := range []releases.Release{releases.Current("kubernetes"), releases.Current("containerd"), releases.Current("flannel")} {
		for _, c := range programsOf(r) {
			recipe, compiled := c.Recipe.(GoModule)
			files := compiled && len(recipe.Commands) == 0
			if id := idOn(known, arm64, c.ID()); !seen[id] || (id == c.ID()) != files {
				t.Errorf("%s for arm64 is %s", c.ID(), id)
			}
		}
	}
}

func TestDownloadsOfBothPlatforms(t *testing.T) {
	chosen := []string{"v" + releases.Current("kubernetes").Version, "containerd/" + releases.Current("containerd").Version}
	w := workshop(t)
	plain := Downloads(chosen...)
	both := DownloadsOn(Platforms(), plain)
	if got := DownloadsOn(nil, plain); !slices.Equal(got, plain) {
		t.Errorf("without a platform there are %v", got)
	}
	for _, want := range []string{"bin/linux/amd64/kubelet", "bin/linux/arm64/kubelet", "/runc.amd64", "/runc.arm64", "-linux-arm64.tar.gz", "cni-plugins-linux-arm64-"} {
		if !slices.ContainsFunc(both, func(d Download) bool { return strings.Contains(d.URL, want) }) {
			t.Errorf("no %s is served", want)
		}
	}
	for _, d := range both {
		if _, ok := w.components[d.Source.Component]; !ok {
			t.Errorf("%s needs %s, which is unknown", d.URL, d.Source.Component)
		}
		if strings.Contains(d.URL, arm64) != strings.HasSuffix(d.Source.Component, "-"+arm64) {
			t.Errorf("%s comes from %s", d.URL, d.Source.Component)
		}
	}
}

// TestProgramIsCrossCompiled makes the smallest image for both platforms.
func TestProgramIsCrossCompiled(t *testing.T) {
	w := workshop(t)
	if err := debian.CheckTools(debian.CrossCompiler(arm64)); err != nil {
		t.Skip(err)
	}
	tag := "registry.k8s.io/pause:" + releases.Current("kubernetes").With["pause"]
	pause := ImagesOn(Platforms(), []Image{image(t, tag)})[0]
	index, err := w.Image(t.Context(), pause)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 2 {
		t.Fatalf("%v: %+v", err, list)
	}
	layers := map[v1.Hash]bool{}
	for n, arch := range []string{amd64, arm64} {
		img, err := index.Image(list.Manifests[n].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil || config.Architecture != arch || list.Manifests[n].Platform.Architecture != arch {
			t.Errorf("manifest %d is for %+v, %v", n, config, err)
		}
		all, err := img.Layers()
		if err != nil || len(all) != 1 {
			t.Fatalf("%d layers, %v", len(all), err)
		}
		digest, err := all[0].Digest()
		if err != nil || layers[digest] {
			t.Errorf("%s has the layer of the other platform, %v", arch, err)
		}
		layers[digest] = true
	}
	dir, err := w.Path(t.Context(), idOn(w.components, arm64, "pause-"+releases.Current("kubernetes").With["pause"]))
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(filepath.Join(dir, "pause"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if program.Machine != elf.EM_AARCH64 {
		t.Errorf("pause is for %s", program.Machine)
	}
}
