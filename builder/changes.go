package builder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
)

// Comparison tells how a build of an add-on would differ from its package of an earlier build.
type Comparison struct {
	Dir     string   `json:"dir"`
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Changes []string `json:"changes"` // for people; none: it would be the same
}

// Compare finds out what a build of the add-on in dir would change in the package that published returns. The Manifest is
// resolved and nothing is packed; what it names is fetched only where that is the way to learn its digest. Published
// returns an error that wraps fs.ErrNotExist when there is no package. Another version of sealift may pack the same
// content in another way: that is no change.
func (b *Builder) Compare(ctx context.Context, dir string, published func(name, version string) (*bundle.Archive, error)) (Comparison, error) {
	a, err := openAddOn(dir)
	if err != nil {
		return Comparison{}, err
	}
	defer a.close()
	c := Comparison{Dir: dir, Name: a.name, Version: a.version, Changes: []string{}}
	was, err := published(a.name, a.version)
	if errors.Is(err, fs.ErrNotExist) {
		c.Changes = append(c.Changes, "there is no package yet")
		return c, nil
	}
	if err != nil {
		return Comparison{}, err
	}
	defer was.Close()
	own, err := a.files(bundle.AddOnDir(a.name, a.version))
	if err != nil {
		return Comparison{}, err
	}
	pinned, err := b.pins(a)
	if err != nil {
		return Comparison{}, err
	}
	r, err := b.resolve(ctx, a, pinned)
	if err != nil {
		return Comparison{}, err
	}
	c.Changes = append(c.Changes, b.settingChanges(a, r, was)...)
	before, now := was.Index.Packages[0].Contents, contents(a, r)
	for _, kind := range []struct {
		name     string
		was, now map[string]string
	}{
		{"image", byName(before.Images, imageName), byName(now.Images, imageName)},
		{"asset", byName(before.Assets, assetName), byName(now.Assets, assetName)},
		{"host package", byName(before.HostPackages, hostPackageName), byName(now.HostPackages, hostPackageName)},
		{"file", ownBefore(was), ownNow(own)},
	} {
		c.Changes = append(c.Changes, mapChanges(kind.name, kind.was, kind.now)...)
	}
	return c, nil
}

// settingChanges compares what holds for a package as a whole.
func (b *Builder) settingChanges(a *addOn, r Resolution, was *bundle.Archive) []string {
	var changes []string
	info := was.Index.Packages[0]
	if !slices.Equal(was.Index.Platforms, b.platforms) {
		changes = append(changes, fmt.Sprintf("platforms: %s → %s", strings.Join(was.Index.Platforms, ", "), strings.Join(b.platforms, ", ")))
	}
	if !slices.Equal(info.Targets, r.Targets) {
		changes = append(changes, fmt.Sprintf("targets: %s → %s", strings.Join(info.Targets, ", "), strings.Join(r.Targets, ", ")))
	}
	if _, layout := was.Entry(path.Join(info.Dir(), imagesDir, "oci-layout")); len(r.Images) > 0 && layout != (b.format == OCILayout) {
		changes = append(changes, "image format: is "+string(b.format)+" now")
	}
	if len(a.manifest.Dockerouts()) > 0 {
		changes = append(changes, "dockerout: what a Dockerfile writes is known only after it has run")
	}
	if b.key != nil {
		public, err := b.key.Public()
		if err == nil {
			_, err = was.VerifySignature(public)
		}
		if err != nil {
			changes = append(changes, "signature: not by this key")
		}
	}
	return changes
}

// contents is what the index of a package says of a resolution.
func contents(a *addOn, r Resolution) bundle.Contents {
	var c bundle.Contents
	dir := bundle.AddOnDir(a.name, a.version)
	for _, one := range r.Images {
		c.Images = append(c.Images, one.Describe())
	}
	for _, one := range r.Assets {
		c.Assets = append(c.Assets, one.Describe(path.Join(dir, assetsDir)))
	}
	for _, one := range r.HostPackages {
		c.HostPackages = append(c.HostPackages, one.Describe(path.Join(dir, packagesDir, one.Target)))
	}
	return c
}

func imageName(i bundle.Image) string             { return i.ID + " " + i.Ref }
func assetName(a bundle.Asset) string             { return a.Path }
func hostPackageName(p bundle.HostPackage) string { return p.Target + " " + p.Name + " " + p.Arch }

// byName gives for each name all that is said of it.
func byName[T any](list []T, name func(T) string) map[string]string {
	m := make(map[string]string)
	for _, one := range list {
		said, err := json.Marshal(one)
		if err != nil {
			said = []byte(err.Error()) // plain data is always encoded
		}
		m[name(one)] += string(said)
	}
	return m
}

// ownNow and ownBefore give the add-on's own files, those that nothing in its Manifest stands for.
func ownNow(files []bundle.File) map[string]string {
	m := make(map[string]string)
	for _, f := range files {
		m[f.Path] = fmt.Sprintf("%o %s", f.Mode.Perm(), f.SHA256)
	}
	return m
}

func ownBefore(was *bundle.Archive) map[string]string {
	info := was.Index.Packages[0]
	made := map[string]bool{path.Join(info.Dir(), sbom.FileName): true}
	for _, one := range info.Assets {
		made[one.Path] = true
	}
	m := make(map[string]string)
	for _, e := range was.Index.Entries {
		below := strings.TrimPrefix(e.Path, info.Dir()+"/")
		if !made[e.Path] && !strings.HasPrefix(below, imagesDir+"/") && !strings.HasPrefix(below, packagesDir+"/") {
			m[e.Path] = fmt.Sprintf("%o %s", fs.FileMode(e.Mode).Perm(), e.SHA256)
		}
	}
	return m
}

func mapChanges(kind string, was, now map[string]string) []string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch old, there := was[name]; {
		case !there:
			changes = append(changes, kind+" "+name+": is new")
		case old != now[name]:
			changes = append(changes, kind+" "+name+": has changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, there := now[name]; !there {
			changes = append(changes, kind+" "+name+": is gone")
		}
	}
	return changes
}
