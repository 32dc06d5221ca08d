package runtime

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/platform"
)

// Program copies a program out of an image that containerd has. name is its path in the image. Nothing is mounted and no
// container runs.
func (r *Runtime) Program(ctx context.Context, ref, name, to string) error {
	record, err := r.client.ImageService().Get(ctx, ref)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("containerd has no image %s; load it with 'sealift images load': %w", ref, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	manifest, err := images.Manifest(ctx, r.client.ContentStore(), record.Target, r.platform)
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	for _, layer := range slices.Backward(manifest.Layers) {
		layer, err := r.form(ctx, manifest.Config, layer)
		if err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
		if done, err := r.programOf(ctx, layer, name, to); err != nil || done {
			if err != nil {
				err = fmt.Errorf("image %s: %w", ref, err)
			}
			return err
		}
	}
	return fmt.Errorf("image %s has no %s: %w", ref, name, fs.ErrNotExist)
}

func (r *Runtime) programOf(ctx context.Context, layer ocispec.Descriptor, name, to string) (done bool, err error) {
	blob, err := r.client.ContentStore().ReaderAt(ctx, layer)
	if err != nil {
		return false, err
	}
	defer blob.Close()
	return copyProgram(content.NewReader(blob), name, to)
}

// Program copies a program out of an image of an OCI layout, like that of a Runtime. It needs no containerd.
func (l *Layout) Program(ctx context.Context, ref, name, to string) error {
	at := slices.IndexFunc(l.Images, func(i Image) bool { return tagged(i.Ref) == tagged(ref) && i.archive.Path == "" })
	if at < 0 {
		return fmt.Errorf("%s has no image %s: %w", l.dir, ref, fs.ErrNotExist)
	}
	manifest, err := images.Manifest(ctx, layoutBlobs{l}, l.Images[at].Target, platform.Host())
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	for _, layer := range slices.Backward(manifest.Layers) {
		if done, err := l.programOf(layer, name, to); err != nil || done {
			if err != nil {
				err = fmt.Errorf("image %s: %w", ref, err)
			}
			return err
		}
	}
	return fmt.Errorf("image %s has no %s: %w", ref, name, fs.ErrNotExist)
}

func (l *Layout) programOf(layer ocispec.Descriptor, name, to string) (done bool, err error) {
	blob, err := l.open(layer)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	if done, err = copyProgram(blob, name, to); err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, blob) // the digest is checked at the end
	return done, err
}

// open opens a layer, as it is in the archive.
func (l *Layout) open(layer ocispec.Descriptor) (io.ReadCloser, error) {
	if e, ok := l.lean(layer); ok {
		return l.archive.OpenLayer(e.Path)
	}
	return l.archive.OpenEntry(l.oci.Blob(layer.Digest))
}

// copyProgram copies a program out of a layer, if it has it.
func copyProgram(blob io.Reader, name, to string) (done bool, err error) {
	unpacked, err := compression.DecompressStream(blob)
	if err != nil {
		return false, err
	}
	defer unpacked.Close()
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if path.Clean("/"+header.Name) != path.Clean("/"+name) || header.Typeflag != tar.TypeReg {
			continue
		}
		return true, writeProgram(archive, to)
	}
}

func writeProgram(r io.Reader, to string) (err error) {
	f, err := files.Create(to, 0o700)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, r)
	return err
}
