package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/plaintext"
)

// AddOptions say which images are added for applications.
type AddOptions struct {
	// ImageOptions.Archive may also be the folder of an OCI layout, an archive of one, or a docker-archive, compressed with gzip or not. These
	// have no signatures.
	ImageOptions
	// Name is the name of an image that has none in such a file.
	Name string
}

// Addition is what is added.
type Addition struct {
	Images []string `json:"images"` // empty in the plan of a compressed archive, which is not read
	Bytes  int64    `json:"bytes"`  // that containerd still needs for them
	Free   uint64   `json:"free"`   // bytes that its file system has left
}

// Adding is an opened source of images.
type Adding struct {
	Addition

	runtime *runtime.Runtime
	socket  string          // of that containerd
	archive *bundle.Archive // nil for a file of another program
	layouts []*runtime.Layout
	foreign *runtime.Foreign
	report  func(ref string)
}

// OpenImages opens images that are to be added, and checks that the disk has the space for them. It changes nothing. Close it.
func OpenImages(ctx context.Context, o AddOptions) (_ *Adding, err error) {
	a := &Adding{report: o.Progress, socket: cmp.Or(o.Socket, runtime.Socket)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err = runtime.CheckRunning(a.socket); err != nil {
		return nil, err
	}
	if a.archive, err = openOurs(ctx, o); err != nil {
		return nil, err
	}
	switch {
	case a.archive == nil && len(o.Trusted) > 0:
		return nil, fmt.Errorf("%s is not a bundle, and has no signature; leave --key out", o.Archive)
	case a.archive == nil:
		if err := bundlepolicy.CheckForeign(o.Archive); err != nil {
			return nil, err
		}
		a.foreign, err = runtime.OpenForeign(o.Archive, o.Name)
	case o.Name != "":
		return nil, errors.New("the images of a bundle have names; leave --name out")
	default:
		a.layouts, err = layoutsOf(a.archive, runtime.OfApplication, false)
	}
	if err != nil {
		return nil, err
	}
	if a.runtime, err = runtime.Connect(ctx, a.socket); err != nil {
		return nil, err
	}
	return a, a.weigh(ctx)
}

// openOurs opens a bundle or package. It returns nil for a file of another program.
func openOurs(ctx context.Context, o AddOptions) (*bundle.Archive, error) {
	if _, err := os.Stat(filepath.Join(o.Archive, ocispec.ImageLayoutFile)); err == nil {
		return nil, nil
	}
	a, err := openTrusted(ctx, o.ImageOptions)
	if errors.Is(err, bundle.ErrForeign) {
		return nil, nil
	}
	return a, err
}

// weigh counts what the images need, and refuses them if the disk has less, or if they would replace images of the installed bundle.
func (a *Adding) weigh(ctx context.Context) (err error) {
	if a.foreign != nil {
		if err := a.runtime.CheckReplaced(ctx, a.foreign.Images); err != nil {
			return err
		}
		a.Images = a.foreign.Names
		a.Bytes, err = a.runtime.SpaceOf(ctx, a.foreign)
	} else {
		for _, layout := range a.layouts {
			if err := a.runtime.CheckReplaced(ctx, layout.Images); err != nil {
				return err
			}
			for _, image := range layout.Images {
				a.Images = append(a.Images, image.Ref)
			}
		}
		a.Bytes, err = a.runtime.Space(ctx, a.layouts...)
	}
	if err != nil {
		return err
	}
	disk, err := diskspace.Of(node.ContainerdDir)
	if err != nil {
		return err
	}
	if a.Free = disk.Bytes; uint64(a.Bytes) > 0 && uint64(a.Bytes)+fullBelow > a.Free {
		return fmt.Errorf("%s has %s free, and the images need %s; free some there", node.ContainerdDir, plaintext.Bytes(a.Free), plaintext.Bytes(a.Bytes+fullBelow))
	}
	return nil
}

// Add adds the images. Killed, the same command goes on.
func (a *Adding) Add(ctx context.Context) (Addition, error) {
	if a.foreign == nil {
		_, err := loadLayouts(ctx, a.runtime, a.socket, a.layouts, a.report)
		return a.Addition, err
	}
	names, err := a.runtime.Add(ctx, a.foreign)
	a.Images = names
	if err == nil {
		err = allowImages(ctx, a.runtime, a.socket, names...)
	}
	return a.Addition, err
}

// Close closes what was opened.
func (a *Adding) Close() (err error) {
	if a.runtime != nil {
		err = a.runtime.Close()
	}
	if a.archive != nil {
		err = errors.Join(err, a.archive.Close())
	}
	return err
}

// layoutsOf opens the images of all packages of an archive, if the policies of this host let them in. For a worker, it leaves out those of a
// control plane.
func layoutsOf(a *bundle.Archive, origin runtime.Origin, worker bool) (layouts []*runtime.Layout, err error) {
	if err := bundlepolicy.Check(a); err != nil {
		return nil, err
	}
	for _, p := range a.Index.Packages {
		layout, err := runtime.OpenLayout(a, path.Join(p.Dir(), "images"))
		if err != nil {
			return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
		if worker && p.Name == kubernetesCapability {
			layout = ofWorker(layout)
		}
		layout.Origin = origin
		layouts = append(layouts, layout)
	}
	return layouts, nil
}
