package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/installer/cluster/imagerecord"
	"github.com/sealift/sealift/installer/cluster/runtime"
)

// ImageOptions says which images are loaded where.
type ImageOptions struct {
	Archive string // its name in messages
	// Open opens the bundle or package. One that leaves out files has its base. LoadImages closes it.
	Open   func() (*bundle.Archive, error)
	Socket string // of containerd; "" for the node's
	// Trusted are public keys. One of them must have signed the archive or each of its packages. If there are none, signatures
	// are not checked.
	Trusted []signature.PublicKey
	// Progress is called with the name of each image before it is loaded, one at a time.
	Progress func(ref string)
}

// LoadImages brings all images of an archive into a node's containerd, outside of any install: after a disk was cleaned by
// hand, or before an add-on is tried. Existing images are left alone. Images that another bundle has a part of are read once before the first
// is loaded, so that a wrong base changes nothing.
func LoadImages(ctx context.Context, o ImageOptions) (_ runtime.Result, err error) {
	socket := cmp.Or(o.Socket, runtime.Socket)
	if err := runtime.CheckRunning(socket); err != nil {
		return runtime.Result{}, err
	}
	a, err := openTrusted(ctx, o)
	if err != nil {
		return runtime.Result{}, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return loadArchive(ctx, a, socket, false, o.Progress)
}

// openTrusted opens an archive, and checks its signature and what it takes from another one.
func openTrusted(ctx context.Context, o ImageOptions) (_ *bundle.Archive, err error) {
	a, err := o.Open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if len(o.Trusted) > 0 {
		if _, err := ocilayout.VerifySignature(a, o.Trusted...); err != nil {
			return nil, fmt.Errorf("%s is not to be trusted: %w", o.Archive, err)
		}
	}
	if !a.Index.Complete() {
		if err := a.VerifyFiles(ctx, a.Index.OfImage); err != nil {
			return nil, fmt.Errorf("%s, or what it adds to, cannot be used: %w", o.Archive, err)
		}
	}
	return a, nil
}

// LoadNodeImages brings the images of an open archive, which may be another node's, into the containerd of a node. A worker gets none of
// a control plane.
func LoadNodeImages(ctx context.Context, a *bundle.Archive, worker bool, progress func(ref string)) (runtime.Result, error) {
	return loadArchive(ctx, a, runtime.Socket, worker, progress)
}

func loadArchive(ctx context.Context, a *bundle.Archive, socket string, worker bool, progress func(ref string)) (total runtime.Result, err error) {
	layouts, err := layoutsOf(a, runtime.OfPerson, worker)
	if err != nil {
		return total, err
	}
	r, err := runtime.Connect(ctx, socket)
	if err != nil {
		return total, err
	}
	defer r.Close()
	return loadLayouts(ctx, r, socket, layouts, progress)
}

func loadLayouts(ctx context.Context, r *runtime.Runtime, socket string, layouts []*runtime.Layout, progress func(ref string)) (total runtime.Result, err error) {
	for _, layout := range layouts {
		loaded, err := loadLayout(ctx, r, socket, layout, progress)
		if err != nil {
			return total, err
		}
		total.Loaded += loaded.Loaded
		total.Present += loaded.Present
	}
	return total, nil
}

func loadLayout(ctx context.Context, r *runtime.Runtime, socket string, layout *runtime.Layout, progress func(ref string)) (runtime.Result, error) {
	loaded, err := r.Load(ctx, layout, progress)
	if err != nil {
		return loaded, err
	}
	return loaded, allowImages(ctx, r, socket, layout.Names()...)
}

// allowImages lets all pods of this node use images that were loaded. The kubelet uses no other containerd than the node's.
func allowImages(ctx context.Context, r *runtime.Runtime, socket string, names ...string) error {
	if socket != runtime.Socket {
		return nil
	}
	known, err := r.Known(ctx, names...)
	if err != nil {
		return err
	}
	for _, image := range known {
		if err := imagerecord.Allow(imagerecord.Dir, image.ID, image.Names...); err != nil {
			return err
		}
	}
	return nil
}
