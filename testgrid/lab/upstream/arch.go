package upstream

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// The lab's own architecture, and the one that it cross-compiles for.
const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// Platforms lists the platforms that the lab can make. The first is the default.
func Platforms() []string { return []string{"linux/" + amd64, "linux/" + arm64} }

// crossed is a recipe that can make the same for another architecture.
type crossed interface {
	// on returns the recipe for that. id returns the ID there of a component that this recipe needs.
	on(arch string, id func(string) string) Recipe
}

func byID(list []Component) map[string]Component {
	known := make(map[string]Component, len(list))
	for _, c := range list {
		known[c.ID()] = c
	}
	return known
}

// differs reports whether a component differs between architectures. Files of a module's source, charts and manifests do not.
func differs(known map[string]Component, c Component) bool {
	switch r := c.Recipe.(type) {
	case GoModule:
		return slices.ContainsFunc(r.Commands, func(c GoCommand) bool { return !c.Tests })
	case CProgram, SystemLayer, BusyboxLayer:
		return true
	case Tarball, FileLayer:
		return slices.ContainsFunc(c.Recipe.Needs(), func(id string) bool { return differs(known, known[id]) })
	}
	return false
}

// idOn returns the ID of a component of amd64 for an architecture.
func idOn(known map[string]Component, arch, id string) string {
	c, ok := known[id]
	if !ok || arch == amd64 || !differs(known, c) {
		return id
	}
	c.Arch = arch
	return c.ID()
}

// foreign lists the components for arm64 that differ from those for amd64.
func foreign(all []Component) []Component {
	known := byID(all)
	list := []Component{sysroot(arm64)}
	for _, c := range all {
		recipe, ok := c.Recipe.(crossed)
		if !ok || !differs(known, c) {
			continue
		}
		c.Arch, c.Recipe = arm64, recipe.on(arm64, func(id string) string { return idOn(known, arm64, id) })
		list = append(list, c)
	}
	return list
}

// sysroot has the libraries that programs of an architecture are linked with.
func sysroot(arch string) Component {
	return Component{Name: "sysroot-debian", Version: "12", Arch: arch, Recipe: SystemTree{Suite: "bookworm", Packages: []string{"libseccomp-dev"}, Arch: arch}}
}

// crossEnvironment has the C compiler for an architecture, and where its libraries are.
func crossEnvironment(arch, sysroot string) []string {
	libraries := filepath.Join(sysroot, "usr/lib", debian.Triplet(arch))
	return []string{"CC=" + debian.CrossCompiler(arch)[0].Program, "PKG_CONFIG_SYSROOT_DIR=" + sysroot, "PKG_CONFIG_LIBDIR=" + filepath.Join(libraries, "pkgconfig"),
		"CGO_CFLAGS=-O2 -I" + filepath.Join(sysroot, "usr/include"), "CGO_LDFLAGS=-L" + libraries}
}

// alternatives are the links that Debian's update-alternatives makes for the packages of images.
func alternatives() map[string]string {
	links := make(map[string]string)
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			links["usr/sbin/"+family+suffix] = family + "-nft" + suffix
		}
	}
	return links
}

// makeTree installs a system of this machine's architecture, or unpacks one of another.
func makeTree(ctx context.Context, dir, suite, arch string, packages []string) error {
	if arch == "" {
		return debian.MakeTree(ctx, dir, suite, packages)
	}
	return debian.UnpackTree(ctx, dir, suite, arch, packages)
}

// placedOn places the files of components for another architecture.
func placedOn(arch string, id func(string) string, files []Placed) []Placed {
	var list []Placed
	for _, f := range files {
		from := f.From
		if from.Component = id(from.Component); from.Component != f.From.Component {
			from.Name = strings.ReplaceAll(from.Name, amd64, arch)
		}
		list = append(list, Placed{from, strings.ReplaceAll(f.To, amd64, arch)})
	}
	return list
}

// archsOf lists the architectures of an image.
func archsOf(i Image) []string {
	if len(i.Archs) == 0 || i.Chart.Component != "" {
		return []string{amd64}
	}
	return i.Archs
}

// ImagesOn are these images with a manifest for each platform, as Platforms lists them; none means the first. The list is not nil.
func ImagesOn(platforms []string, images []Image) []Image {
	list := append([]Image{}, images...)
	for n := range list {
		for _, platform := range platforms {
			list[n].Archs = append(slices.Clone(list[n].Archs), strings.TrimPrefix(platform, "linux/"))
		}
	}
	return list
}

// DownloadsOn are these files, each for every platform for which there is another one; no platform means the first.
func DownloadsOn(platforms []string, downloads []Download) []Download {
	known := byID(Components())
	var list []Download
	for _, d := range downloads {
		for _, platform := range platforms {
			arch := strings.TrimPrefix(platform, "linux/")
			on := d
			if on.Source.Component = idOn(known, arch, d.Source.Component); on.Source.Component != d.Source.Component {
				on.URL, on.Source.Name = strings.ReplaceAll(d.URL, amd64, arch), strings.ReplaceAll(d.Source.Name, amd64, arch)
			}
			if !slices.Contains(list, on) {
				list = append(list, on)
			}
		}
		if len(platforms) == 0 {
			list = append(list, d)
		}
	}
	return list
}
