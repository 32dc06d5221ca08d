package runtime

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// maxManifest bounds the JSON documents of a layout; registries refuse more than 4 MiB.
const maxManifest = 4 << 20

// Image is one image of a layout.
type Image struct {
	Ref     string
	Target  ocispec.Descriptor // an index or a manifest; zero for a docker-archive
	archive bundle.Entry       // the docker-archive that holds it, if one does
}

// names are the records that the kubelet may ask for: the reference, and the repository with the digest.
func (i Image) names() []string {
	repo, _, _ := strings.Cut(i.Ref, "@")
	if at := strings.LastIndexByte(repo, ':'); at > strings.LastIndexByte(repo, '/') {
		repo = repo[:at]
	}
	byDigest := repo + "@" + i.Target.Digest.String()
	if i.Ref == byDigest {
		return []string{i.Ref}
	}
	return []string{i.Ref, byDigest}
}

// Layout is the images of a package: an OCI image layout inside an archive, or docker-archives (images/*.tar.gz), as kURL
// has them, or both.
type Layout struct {
	Images  []Image
	archive *bundle.Archive
	dir     string
}

// OpenLayout reads the list of images in a folder, such as addons/flannel/0.26.7/images. A folder that the archive does
// not have is a layout without images.
func OpenLayout(a *bundle.Archive, dir string) (*Layout, error) {
	l := &Layout{archive: a, dir: dir, Images: dockerArchives(a, dir)}
	if _, ok := a.Entry(path.Join(dir, ocispec.ImageIndexFile)); !ok {
		return l, nil
	}
	var index ocispec.Index
	if err := l.readJSON(path.Join(dir, ocispec.ImageIndexFile), &index); err != nil {
		return nil, err
	}
	for _, desc := range index.Manifests {
		ref := desc.Annotations[images.AnnotationImageName]
		if ref == "" {
			ref = desc.Annotations[ocispec.AnnotationRefName]
		}
		if ref == "" {
			return nil, fmt.Errorf("%s: image %s has no name", dir, desc.Digest)
		}
		l.Images = append(l.Images, Image{Ref: ref, Target: ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}})
	}
	return l, nil
}

func (l *Layout) readJSON(name string, into any) error {
	data, err := l.archive.ReadFile(name, maxManifest)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (l *Layout) blob(desc ocispec.Descriptor) string {
	return path.Join(l.dir, ocispec.ImageBlobsDir, desc.Digest.Algorithm().String(), desc.Digest.Encoded())
}

// copyBlob copies one blob unless the store has it.
func (l *Layout) copyBlob(ctx context.Context, store content.Store, desc ocispec.Descriptor) error {
	if info, err := store.Info(ctx, desc.Digest); err == nil && info.Size == desc.Size {
		return nil
	} else if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	blob := &resumable{archive: l.archive, name: l.blob(desc)}
	ingest := "sealift-" + desc.Digest.String()
	err := writeBlob(ctx, store, ingest, blob, desc)
	if err != nil && blob.resumed() && isDamage(err) { // what was there before may be what is wrong
		blob = &resumable{archive: l.archive, name: blob.name}
		err = writeBlob(ctx, store, ingest, blob, desc)
	}
	return err
}

// writeBlob writes a blob, from where an earlier run was cut off. What is wrong in it is dropped, or it would be gone on with.
func writeBlob(ctx context.Context, store content.Store, ingest string, blob *resumable, desc ocispec.Descriptor) error {
	err := errors.Join(content.WriteBlob(ctx, store, ingest, blob, desc), blob.Close())
	if err != nil && isDamage(err) {
		return errors.Join(err, aborted(store.Abort(context.WithoutCancel(ctx), ingest)))
	}
	return err
}

// isDamage says whether a blob has another content than its name says, as the archive or containerd found at its end.
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

// UnpackedSize is how many bytes the layouts take on a node: every distinct blob once as it is, and every distinct layer
// once unpacked. A gzip layer tells its unpacked size in its last four bytes (RFC 1952 §2.3.1, modulo 4 GiB). The layers
// of a docker-archive are stored as they come out of it, so that they count twice.
func UnpackedSize(layouts ...*Layout) (int64, error) {
	sizes := make(map[string]int64)
	for _, l := range layouts {
		for _, e := range l.archive.Below(path.Join(l.dir, ocispec.ImageBlobsDir)) {
			if _, counted := sizes[e.SHA256]; counted {
				continue
			}
			unpacked, err := l.gzipSize(e)
			if err != nil {
				return 0, err
			}
			sizes[e.SHA256] = e.Size + unpacked
		}
		for _, image := range l.Images {
			if image.archive.Path == "" {
				continue
			}
			unpacked, err := l.gzipSize(image.archive)
			if err != nil {
				return 0, err
			}
			sizes[image.archive.SHA256] = 2 * unpacked
		}
	}
	var total int64
	for size := range maps.Values(sizes) {
		total += size
	}
	return total, nil
}

// gzipSize gives the inflated size of a gzip file, zero for another file. An archive compresses no gzip file again.
func (l *Layout) gzipSize(e bundle.Entry) (int64, error) {
	if e.Encoding == bundle.Deflate || e.Size < 18 { // the header and the end of a gzip file
		return 0, nil
	}
	var head, tail [4]byte
	err := l.archive.ReadAt(e.Path, head[:2], 0)
	if err != nil || !slices.Equal(head[:2], []byte{0x1f, 0x8b}) {
		return 0, err
	}
	if err := l.archive.ReadAt(e.Path, tail[:], e.Size-4); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint32(tail[:])), nil
}
