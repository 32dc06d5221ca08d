package runtime

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/internal/platform"
)

// maxExported bounds a blob of an exported image: such an image is as small as a sandbox image.
const maxExported = 64 << 20

// Export writes a small image as a gzip file that 'ctr images import' reads once it is inflated.
func (l *Layout) Export(ctx context.Context, ref string, w io.Writer) error {
	for _, image := range l.Images {
		if tagged(image.Ref) != tagged(ref) {
			continue
		}
		if image.archive.Path != "" {
			return l.copyFile(image.archive.Path, w)
		}
		z := gzip.NewWriter(w)
		blobs := layoutBlobs{l}
		if err := archive.Export(ctx, blobs, z, archive.WithManifest(image.Target, ref), archive.WithPlatform(platform.Host())); err != nil {
			return fmt.Errorf("export image %s: %w", ref, err)
		}
		return z.Close()
	}
	return fmt.Errorf("%s has no image %s", l.dir, ref)
}

func (l *Layout) copyFile(name string, w io.Writer) error {
	data, err := l.archive.ReadFile(name, maxExported)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// layoutBlobs are the blobs of a layout as containerd reads them.
type layoutBlobs struct{ layout *Layout }

// Info implements content.InfoProvider.
func (b layoutBlobs) Info(_ context.Context, d digest.Digest) (content.Info, error) {
	name := b.layout.oci.Blob(d)
	e, ok := b.layout.archive.Entry(name)
	if !ok {
		return content.Info{}, fmt.Errorf("%s: %w", name, errdefs.ErrNotFound)
	}
	return content.Info{Digest: d, Size: e.Size}, nil
}

// ReaderAt implements content.Provider. What it returns is verified.
func (b layoutBlobs) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if _, err := b.Info(ctx, desc.Digest); err != nil {
		return nil, err
	}
	data, err := b.layout.archive.ReadFile(b.layout.oci.Blob(desc.Digest), maxExported)
	return blobBytes{bytes.NewReader(data)}, err
}

type blobBytes struct{ *bytes.Reader }

// Close implements io.Closer.
func (blobBytes) Close() error { return nil }
