package delta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// layer is a layer of an image.
type layer struct {
	// role is the same for the layer of another version of the image: the repository, the platform, and the place from the top.
	role string
	name string // the path that the layer itself has in its package
	diff string // sha256 of the unpacked layer
}

// layers lists the layers of the images of a package, each once, if they are tars. A package of docker-archives has none, and neither
// has an image whose documents the archive leaves out.
func layers(a *bundle.Archive, p bundle.PackageInfo) (list []layer, err error) {
	layout, err := ocilayout.Open(a, path.Join(p.Dir(), "images"))
	if errors.Is(err, bundle.ErrNoBase) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for _, image := range layout.Images {
		one := *layout
		one.Images = []ocilayout.Image{image}
		all, err := one.Layers()
		if errors.Is(err, bundle.ErrNoBase) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			if !seen[l.Path] && l.IsTar() {
				seen[l.Path] = true
				list = append(list, layer{role: role(l), name: l.Path, diff: l.DiffID.Encoded()})
			}
		}
	}
	return list, nil
}

func role(l ocilayout.Layer) string {
	var platform string
	if p := l.Manifest.Platform; p != nil {
		platform = p.OS + "/" + p.Architecture + "/" + p.Variant
	}
	return fmt.Sprintf("%s %s %d", ocilayout.Repository(l.Image.Ref), platform, l.FromTop)
}

// patchLayers makes patches of the layers of a package.
func (m *maker) patchLayers(ctx context.Context, t target, from *bundle.Archive, info bundle.PackageInfo) error {
	list, err := layers(t.archive, t.info)
	if err != nil || len(list) == 0 {
		return err
	}
	had, err := layers(from, info)
	if err != nil {
		return err
	}
	bases := make(map[string]layer, len(had))
	for _, l := range had {
		bases[l.role] = l
	}
	for _, l := range list {
		now, ok := carried(t.archive, l)
		if !ok {
			continue
		}
		if had, err := m.has(ctx, t, l, now); err != nil || had {
			if err != nil {
				return err
			}
			continue
		}
		base, ok := bases[l.role]
		if !ok || now.entry.Size < smallest {
			continue
		}
		old, ok := carried(from, base)
		if !ok {
			continue
		}
		length := now.entry.Length
		if lean, ok := t.leanLayer(l); ok {
			length = lean.Length
		}
		if err := m.patch(ctx, old, now, now.entry.Path, length); err != nil {
			return fmt.Errorf("layer %s: %w", digest.NewDigestFromEncoded(digest.SHA256, now.layer), err)
		}
	}
	return nil
}

func (t target) leanLayer(l layer) (bundle.Entry, bool) {
	if t.lean == nil {
		return bundle.Entry{}, false
	}
	return t.lean.LeanLayer(l.name)
}

// carried returns a layer as an archive has it.
func carried(a *bundle.Archive, l layer) (content, bool) {
	c := content{plain: bundle.Blob{SHA256: l.diff}, layer: path.Base(l.name)}
	e, ok := a.LeanLayer(l.name)
	if ok {
		c.plain.Size = e.Layer.Size
	} else {
		e, ok = a.Entry(l.name)
	}
	c.entry, c.open = e, opener(a, e)
	return c, ok
}

// has reports whether the reader has a layer in some form. It notes in the new bundle if an earlier patch made that form.
func (m *maker) has(ctx context.Context, t target, l layer, now content) (_ bool, err error) {
	for _, form := range []bundle.Entry{now.entry, {SHA256: now.layer}} {
		if _, ok := m.Since.Has(form); ok {
			return true, nil
		}
	}
	lean, ok := t.leanLayer(l)
	if ok {
		if _, had := m.Since.Has(lean); had {
			return true, nil
		}
	}
	made := bundle.Entry{Path: path.Join(path.Dir(l.name), l.diff), Mode: now.entry.Mode, SHA256: l.diff, Encoding: bundle.InBase}
	if made.Link, ok = m.Since.Has(made); !ok {
		return false, nil
	}
	if m.taken[made.Path] { // another layer unpacks to the same
		return false, nil
	}
	made.Size, err = now.unpack(ctx, io.Discard)
	if errors.Is(err, errTooLarge) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.taken[made.Path] = true
	made.Layer = &bundle.Layer{Blob: now.layer, DiffID: l.diff, Size: made.Size}
	m.set.Entries[now.entry.Path] = made
	return true, nil
}
