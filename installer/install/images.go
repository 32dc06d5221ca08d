package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host/imagepolicy"
)

// ImageOptions says which images are loaded where.
type ImageOptions struct {
	Archive string // a bundle, a package, or the folder into which one was unpacked
	Socket  string // of containerd; "" for the node's
	// Trusted are public keys. One of them must have signed the archive or each of its packages. If there are none, signatures
	// are not checked.
	Trusted []signature.PublicKey
	// Progress is called with the name of each image before it is loaded, one at a time.
	Progress func(ref string)
}

// LoadImages brings all images of an archive into a node's containerd, outside of any install: after a disk was cleaned by
// hand, or before an add-on is tried. Existing images are left alone.
func LoadImages(ctx context.Context, o ImageOptions) (_ runtime.Result, err error) {
	a, err := bundle.Open(o.Archive, o.Trusted...)
	if err != nil {
		return runtime.Result{}, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if len(o.Trusted) > 0 {
		if _, err := a.VerifySignature(o.Trusted...); err != nil {
			return runtime.Result{}, fmt.Errorf("%s is not to be trusted: %w", o.Archive, err)
		}
	}
	return LoadImagesOf(ctx, a, cmp.Or(o.Socket, runtime.Socket), o.Progress)
}

// LoadImagesOf does that for an open archive, which may be another node's.
func LoadImagesOf(ctx context.Context, a *bundle.Archive, socket string, progress func(ref string)) (total runtime.Result, err error) {
	if err := imagepolicy.Check(a, imagepolicy.File); err != nil {
		return total, err
	}
	var layouts []*runtime.Layout
	for _, p := range a.Index.Packages {
		layout, err := runtime.OpenLayout(a, path.Join(p.Dir(), "images"))
		if err != nil {
			return total, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
		layout.ByPerson = true
		layouts = append(layouts, layout)
	}
	r, err := runtime.Connect(ctx, socket)
	if err != nil {
		return total, err
	}
	defer r.Close()
	for _, layout := range layouts {
		loaded, err := r.Load(ctx, layout, progress)
		if err != nil {
			return total, err
		}
		total.Loaded += loaded.Loaded
		total.Present += loaded.Present
	}
	return total, nil
}
