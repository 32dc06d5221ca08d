package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// Image is one image of a layout.
type Image struct {
	Ref     string
	Target  ocispec.Descriptor // an index or a manifest; zero for a docker-archive
	archive bundle.Entry       // the docker-archive that holds it, if one does
}

// checkDigest refuses a name with the digest of something else: pods that are pinned to it would run this image.
func (i Image) checkDigest() error {
	if _, pinned, found := strings.Cut(i.Ref, "@"); found && pinned != i.Target.Digest.String() {
		return fmt.Errorf("image %s: its content has the digest %s; copy it again with all platforms ('skopeo copy --all'), or name it without a digest", i.Ref, i.Target.Digest)
	}
	return nil
}

// names are the records that the kubelet may look up: the reference, and the repository with the digest.
func (i Image) names() []string {
	byDigest := ocilayout.Repository(i.Ref) + "@" + i.Target.Digest.String()
	if i.Ref == byDigest {
		return []string{i.Ref}
	}
	return []string{i.Ref, byDigest}
}

// Layout is the images of a package: an OCI image layout inside an archive, or docker-archives (images/*.tar.gz), as kURL
// has them, or both.
type Layout struct {
	Images []Image
	// Skip reports whether a blob is for other platforms, so that this host does not load it. nil means that all are loaded.
	Skip func(path string) bool
	// Origin says for whom the images are loaded; "" is OfBundle. No prune removes those of another origin.
	Origin Origin

	archive *bundle.Archive
	dir     string
	oci     *ocilayout.Layout
}

// OpenLayout reads the list of images in a folder, such as addons/flannel/0.26.7/images. A folder that the archive does
// not have is a layout without images.
func OpenLayout(a *bundle.Archive, dir string) (*Layout, error) {
	oci, err := ocilayout.Open(a, dir)
	if err != nil {
		return nil, err
	}
	l := &Layout{archive: a, dir: dir, oci: oci, Images: dockerArchives(a, dir)}
	for _, i := range oci.Images {
		image := Image{Ref: i.Ref, Target: i.Target}
		if err := image.checkDigest(); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		l.Images = append(l.Images, image)
	}
	return l, nil
}

// Names returns a name of each image, as containerd has it after the load.
func (l *Layout) Names() (names []string) {
	for _, image := range l.Images {
		if image.archive.Path != "" {
			names = append(names, tagged(image.Ref))
		} else {
			names = append(names, image.Ref)
		}
	}
	return names
}

// copyBlob copies one blob unless the store has it.
func (l *Layout) copyBlob(ctx context.Context, store content.Store, desc ocispec.Descriptor) error {
	if info, err := store.Info(ctx, desc.Digest); err == nil && info.Size == desc.Size {
		return nil
	} else if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	blob := &resumable{archive: l.archive, name: l.oci.Blob(desc.Digest)}
	ingest := "sealift-" + desc.Digest.String()
	err := writeBlob(ctx, store, ingest, blob, desc)
	if err != nil && blob.resumed() && isDamage(err) { // leftovers may be the fault
		blob = &resumable{archive: l.archive, name: blob.name}
		err = writeBlob(ctx, store, ingest, blob, desc)
	}
	return err
}

// writeBlob writes a blob, from where an earlier run was cut off. A damaged partial blob is deleted, so that it is not resumed.
func writeBlob(ctx context.Context, store content.Store, ingest string, blob *resumable, desc ocispec.Descriptor) error {
	err := errors.Join(content.WriteBlob(ctx, store, ingest, blob, desc), blob.Close())
	if err != nil && isDamage(err) {
		return errors.Join(err, aborted(store.Abort(context.WithoutCancel(ctx), ingest)))
	}
	return err
}

// isDamage reports whether a blob has another content than its name says, as the archive or containerd found at its end.
func isDamage(err error) bool {
	var damaged *bundle.DigestError
	return errors.As(err, &damaged) || errdefs.IsFailedPrecondition(err)
}

// aborted is the error of an abort, if it is one: there may have been nothing to abort.
func aborted(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
