package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// maxLayers is more than overlayfs takes.
const maxLayers = 512

// opened is an image and where its layers are.
type opened struct {
	Image
	layout  *ocilayout.Layout
	diffIDs []digest.Digest // of the unpacked layers, according to the configuration; empty without one
}

// imagesOf lists the images of a bundle, each platform once, with their layers.
func imagesOf(from *bundle.Archive) ([]*opened, error) {
	var all []*opened
	seen := make(map[[3]string]bool)
	for _, p := range from.Index.Packages {
		layout, err := ocilayout.Open(from, path.Join(p.Dir(), "images"))
		if err != nil {
			return nil, err
		}
		for _, i := range p.Images {
			for _, platform := range slices.Sorted(maps.Keys(i.Platforms)) {
				key := [3]string{i.Ref, platform, i.Platforms[platform]}
				if seen[key] {
					continue
				}
				seen[key] = true
				one := &opened{Image: Image{Ref: i.Ref, Digest: i.Digest, Platform: platform, Manifest: i.Platforms[platform]}, layout: layout}
				if err := one.read(); err != nil {
					return nil, fmt.Errorf("image %s: %w", i.Ref, err)
				}
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// errMisnamed reports a blob whose name is the digest of something else. A container runtime refuses it.
var errMisnamed = errors.New("its name is not the digest of its content")

// Ends of reasons why content of an image may be missing, although all of the image was read.
const (
	noDatabase = ", and no package database"
	neither    = "it has neither a package database nor a Go program"
)

// Unread lists the reasons of Unknown by which Go programs may be missing.
func (i Image) Unread() []string {
	return slices.DeleteFunc(slices.Clone(i.Unknown), func(reason string) bool { return reason == neither || strings.HasSuffix(reason, noDatabase) })
}

func (i *opened) unknown(format string, args ...any) {
	i.Unknown = append(i.Unknown, fmt.Sprintf(format, args...))
}

// read sets the layers. Only damage of the bundle is an error.
func (i *opened) read() error {
	m, err := i.layout.Read(ocispec.Descriptor{Digest: digest.Digest(i.Manifest)})
	if errors.Is(err, fs.ErrNotExist) {
		i.unknown("it is not in an OCI layout: docker-archives are not read")
		return nil
	}
	if err == nil && len(m.Layers) > maxLayers {
		err = fmt.Errorf("%w: it has %d layers", ocilayout.ErrDocument, len(m.Layers))
	}
	if err == nil {
		i.diffIDs, err = i.layout.DiffIDs(m)
	}
	if errors.Is(err, ocilayout.ErrDocument) {
		i.unknown("%v", err)
		return nil
	}
	for _, l := range m.Layers {
		i.Layers = append(i.Layers, l.Digest.String())
	}
	if err != nil {
		return err
	}
	said, err := i.layout.Licenses(m)
	if said != "" && len(said) <= maxStatement {
		i.Licenses = []string{said}
	}
	return err
}

// byFirstLayer groups images that may share layers. The groups are in the order of the images.
func byFirstLayer(images []*opened) [][]*opened {
	var groups [][]*opened
	at := make(map[string]int)
	for _, i := range images {
		if len(i.Layers) == 0 {
			continue
		}
		if _, ok := at[i.Layers[0]]; !ok {
			at[i.Layers[0]] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[i.Layers[0]]] = append(groups[at[i.Layers[0]]], i)
	}
	return groups
}

// chain names the first n layers of an image.
func chain(i *opened, n int) string { return strings.Join(i.Layers[:n], " ") }

// images lists the content of images that share their first layer. What several of them have at their bottom is read once.
func (s *scanner) images(group []*opened) error {
	uses := make(map[string]int)
	for _, i := range group {
		for n := range i.Layers {
			uses[chain(i, n+1)]++
		}
	}
	trees := make(map[string]*tree)
	for _, i := range group {
		if err := s.image(i, trees, uses); err != nil {
			return fmt.Errorf("image %s %s: %w", i.Ref, i.Platform, err)
		}
	}
	return nil
}

func (s *scanner) image(i *opened, trees map[string]*tree, uses map[string]int) error {
	t := newTree()
	for n, layer := range i.Layers {
		key := chain(i, n+1)
		known := trees[key]
		if known == nil {
			known = t.clone()
			var hostile *unreadable
			if err := s.layer(known, i, n); errors.As(err, &hostile) {
				i.unknown("layer %s: %v", layer, hostile)
			} else if err != nil {
				return err
			}
			// The next image with these layers shall also say what is unknown, so it reads a layer that is not readable again.
			if uses[key] > 1 && hostile == nil {
				trees[key] = known
			}
		}
		if uses[key]--; uses[key] == 0 {
			delete(trees, key)
		}
		t = known
	}
	i.list(t)
	return nil
}

// list fills in the content of an image.
func (i *opened) list(t *tree) {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		if f := t.lookup(name); f != nil && f.system != "" {
			i.System = f.system
			break
		}
	}
	foreign := 0
	i.Texts = t.texts()
	byFolder := folders(i.Texts)
	t.walk(func(name string, f *found) {
		if f.unread != "" {
			i.unknown("%s: %s", name, f.unread)
		}
		for _, c := range f.packages {
			c.System = i.System
			p := Package{Component: c, Path: name, Layer: f.layer}
			switch doc := t.copyright(c.Name); {
			case c.Kind == component.Deb && doc != nil:
				p.Licenses, p.Texts = doc.licenses, []string{doc.text.SHA256}
			case c.Kind != component.Deb:
				for _, text := range byFolder["/usr/share/licenses/"+c.Name] {
					p.Texts = append(p.Texts, text.SHA256)
				}
			}
			i.Packages = append(i.Packages, p)
		}
		if f.program != nil {
			p := *f.program
			p.Path, p.Layer = name, f.layer
			i.Programs = append(i.Programs, p)
		}
		if f.foreign {
			foreign++
		}
	})
	if foreign > 0 && len(i.Packages) == 0 && len(i.Programs) > 0 {
		i.unknown("it has programs or libraries that are not of Go (%d)"+noDatabase, foreign)
	}
	if len(i.Packages) == 0 && len(i.Programs) == 0 {
		i.unknown(neither)
	}
	addModules(i.Programs, i.Texts)
	slices.Sort(i.Unknown)
	slices.SortFunc(i.Packages, func(a, b Package) int {
		return cmp.Or(component.Compare(a.Component, b.Component), cmp.Compare(a.Path, b.Path))
	})
	slices.SortFunc(i.Programs, func(a, b Program) int { return cmp.Compare(a.Path, b.Path) })
}
