package runtime

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/containerd/containerd/v2/pkg/rootfs"
	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// A lean layer is in the content store in place of the layer that the manifest names. containerd unpacks it, and the configuration's
// diff_ids guard what it unpacks to. Later, containerd needs no layer: an image counts as available without them, as with its own
// option discard_unpacked_layers. Sealift needs the lean layer for nodes that join.

// leanLabel and the sha256 of a layer are a label of its image's configuration. The value is the digest of the lean form: containerd
// collects that form together with the configuration.
const leanLabel = "containerd.io/gc.ref.content.sealift."

// snapshotLabel and the name of a snapshotter are containerd's own label of a configuration whose image is unpacked.
const snapshotLabel = "containerd.io/gc.ref.snapshot."

// lean returns the lean form of a layer, if the archive has that.
func (l *Layout) lean(layer ocispec.Descriptor) (bundle.Entry, bool) {
	return l.archive.LeanLayer(l.oci.Blob(layer.Digest))
}

// carried returns the descriptor of a blob as the archive has it: its lean form, or itself.
func (l *Layout) carried(blob ocispec.Descriptor) (ocispec.Descriptor, error) {
	e, ok := l.lean(blob)
	if !ok {
		return blob, nil
	}
	return leanDescriptor(digest.NewDigestFromEncoded(digest.SHA256, e.SHA256), e.Size), l.checkWindow(e)
}

// leanDescriptor describes a lean layer. containerd looks at the content to see whether it is compressed at all.
func leanDescriptor(d digest.Digest, size int64) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: d, Size: size}
}

// checkWindow refuses a lean layer that would make containerd use more memory than the index says.
func (l *Layout) checkWindow(e bundle.Entry) error {
	if e.Layer.Compression == "" {
		return nil
	}
	head := make([]byte, min(e.Size, zstd.HeaderMaxSize))
	if err := l.archive.ReadAt(e.Path, head, 0); err != nil {
		return err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil || h.Skippable {
		return fmt.Errorf("%s: is not a zstd frame; copy or download the archive again", e.Path)
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if window > uint64(e.Layer.Window) {
		return fmt.Errorf("%s: needs a window of %d bytes, and the index says %d", e.Path, window, e.Layer.Window)
	}
	return nil
}

// stored reports whether the content store has a blob of an image as the archive has it.
func (l *Layout) stored(ctx context.Context, store content.Store, blob ocispec.Descriptor) (bool, error) {
	at := blob.Digest
	if e, ok := l.lean(blob); ok {
		at = digest.NewDigestFromEncoded(digest.SHA256, e.SHA256)
	}
	_, err := store.Info(ctx, at)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// unpack has containerd unpack an image of a layout, from whatever form of each layer the content store has.
func (r *Runtime) unpack(ctx context.Context, layout *Layout, image Image) error {
	cs := r.client.ContentStore()
	manifest, err := images.Manifest(ctx, cs, image.Target, r.platform)
	if err != nil {
		return err
	}
	config := content.Info{Digest: manifest.Config.Digest, Labels: map[string]string{}}
	for _, layer := range manifest.Layers {
		if e, ok := layout.lean(layer); ok {
			config.Labels[leanLabel+layer.Digest.Encoded()] = "sha256:" + e.SHA256
		}
	}
	if len(config.Labels) == 0 {
		return r.handle(image).Unpack(ctx, "", durably)
	}
	if err := label(ctx, cs, config); err != nil { // before the snapshots: a lease holds both until then
		return err
	}
	diffIDs, err := images.RootFS(ctx, cs, manifest.Config)
	if err != nil {
		return err
	}
	if len(diffIDs) != len(manifest.Layers) {
		return fmt.Errorf("its configuration has %d layers, and its manifest %d", len(diffIDs), len(manifest.Layers))
	}
	snapshotter, err := r.snapshotter(ctx)
	if err != nil {
		return err
	}
	for i, layer := range manifest.Layers {
		if layer, err = r.form(ctx, manifest.Config, layer); err != nil {
			return err
		}
		if err := r.apply(ctx, snapshotter, layer, diffIDs[:i+1]); err != nil {
			return fmt.Errorf("layer %s: %w", layer.Digest, err)
		}
	}
	return label(ctx, cs, content.Info{Digest: manifest.Config.Digest, Labels: map[string]string{snapshotLabel + snapshotter: identity.ChainID(diffIDs).String()}})
}

// apply unpacks one layer on those before it, unless its snapshot exists. containerd compares what it unpacks to with the last of
// the diff_ids.
func (r *Runtime) apply(ctx context.Context, snapshotter string, layer ocispec.Descriptor, diffIDs []digest.Digest) error {
	last := len(diffIDs) - 1
	before := append([]digest.Digest(nil), diffIDs[:last]...) // the call below appends to it
	one := rootfs.Layer{Blob: layer, Diff: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: diffIDs[last]}}
	unpacked, err := rootfs.ApplyLayerWithOpts(ctx, one, before, r.client.SnapshotService(snapshotter), r.client.DiffService(), nil, []diff.ApplyOpt{diff.WithSyncFs(true)})
	if err != nil || !unpacked {
		return err
	}
	return label(ctx, r.client.ContentStore(), content.Info{Digest: layer.Digest, Labels: map[string]string{labels.LabelUncompressed: diffIDs[last].String()}})
}

// snapshotter returns the name of the snapshotter that containerd uses for images of this namespace.
func (r *Runtime) snapshotter(ctx context.Context) (string, error) {
	name, err := r.client.GetLabel(ctx, defaults.DefaultSnapshotterNSLabel)
	if name == "" {
		name = defaults.DefaultSnapshotter
	}
	return name, err
}

// label adds labels to a blob.
func label(ctx context.Context, store content.Store, info content.Info) error {
	var fields []string
	for name := range info.Labels {
		fields = append(fields, "labels."+name)
	}
	_, err := store.Update(ctx, info, fields...)
	return err
}

// Form returns the descriptor of the form of a layer that the content store has: the layer itself, or its lean form. A missing one is
// fs.ErrNotExist.
func (r *Runtime) Form(ctx context.Context, config, layer ocispec.Descriptor) (ocispec.Descriptor, error) {
	form, err := r.form(ctx, config, layer)
	if errdefs.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return form, err
}

// form returns the descriptor of the form of a layer that the content store has: the layer itself, or its lean form.
func (r *Runtime) form(ctx context.Context, config, layer ocispec.Descriptor) (ocispec.Descriptor, error) {
	cs := r.client.ContentStore()
	if _, err := cs.Info(ctx, layer.Digest); err == nil || !errdefs.IsNotFound(err) {
		return layer, err
	}
	info, err := cs.Info(ctx, config.Digest)
	if err != nil {
		return layer, err
	}
	lean, err := digest.Parse(info.Labels[leanLabel+layer.Digest.Encoded()])
	if err != nil {
		return layer, fmt.Errorf("layer %s: %w", layer.Digest, errdefs.ErrNotFound)
	}
	if info, err = cs.Info(ctx, lean); err != nil {
		return layer, err
	}
	return leanDescriptor(lean, info.Size), nil
}
