package runtime

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/klauspost/compress/gzip"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// archiveLabel marks an image record with the sha256 of its docker-archive, so that the next load knows without reading it. The
// digest of the image itself is not known before: containerd makes up its manifest.
const archiveLabel = "sealift.dev/docker-archive"

// dockerArchives lists the docker-archives in a folder of images, with the names that the package's index has for them.
func dockerArchives(a *bundle.Archive, dir string) []Image {
	refs := make(map[string]string) // by file name
	for _, p := range a.Index.Packages {
		if path.Join(p.Dir(), "images") != dir {
			continue
		}
		for _, image := range p.Images {
			refs[image.ID+".tar.gz"] = image.Ref
		}
	}
	var list []Image
	for _, e := range ocilayout.DockerArchives(a, dir) {
		ref := refs[path.Base(e.Path)]
		if ref == "" {
			ref = e.Path
		}
		list = append(list, Image{Ref: ref, archive: e})
	}
	return list
}

// tagged is a docker-archive's name for an image: without a digest beside the tag.
func tagged(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	if t, ok := named.(reference.Tagged); ok {
		return named.Name() + ":" + t.Tag()
	}
	return named.String()
}

// archivePresent reports whether an image exists that this very archive was loaded as, pinned, complete and unpacked.
func (r *Runtime) archivePresent(ctx context.Context, layout *Layout, image Image) (bool, error) {
	name := tagged(image.Ref)
	record, err := r.client.ImageService().Get(ctx, name)
	if errdefs.IsNotFound(err) || err == nil && (record.Labels[archiveLabel] != image.archive.SHA256 || record.Labels[pinLabel] != pin) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up image %s: %w", name, err)
	}
	if ok, err := r.complete(ctx, layout, Image{Ref: name, Target: record.Target}); err != nil || !ok {
		return false, err
	}
	return true, r.mark(ctx, layout, []images.Image{record})
}

// loadArchive streams a docker-archive into the content store. Its images get their names once its last byte is verified. If the
// archive fails, containerd collects the stored blobs when their lease ends.
func (r *Runtime) loadArchive(ctx context.Context, layout *Layout, image Image) error {
	file, err := layout.archive.OpenEntry(image.archive.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	index, err := r.importArchive(ctx, file)
	if err != nil {
		return fmt.Errorf("%s: %w", image.archive.Path, err)
	}
	labels := layout.labels()
	labels[archiveLabel] = image.archive.SHA256
	names, err := r.keep(ctx, index, labels, annotated)
	if err != nil {
		return err
	}
	if !slices.Contains(names, tagged(image.Ref)) && image.Ref != image.archive.Path {
		return fmt.Errorf("%s has no image of that name; build the package again", image.archive.Path)
	}
	return nil
}

// Import brings the images of a file that is in no bundle into containerd, unpacked and pinned: a docker-archive or an archive
// of an OCI layout, compressed or not. Images without a name are left out. It returns the names of the others.
func (r *Runtime) Import(ctx context.Context, file io.Reader) (names []string, err error) {
	return r.importNamed(ctx, file, map[string]string{pinLabel: pin}, nil, annotated)
}

// importNamed does that with labels for the images. check, if it is not nil, may refuse them. named returns the names of an image.
func (r *Runtime) importNamed(ctx context.Context, file io.Reader, labels map[string]string, check func(ocispec.Index) error, named func(ocispec.Descriptor) []string) (names []string, err error) {
	ctx, release, err := r.client.WithLease(ctx)
	if err != nil {
		return nil, fmt.Errorf("containerd lease: %w", err)
	}
	defer func() { err = errors.Join(err, release(context.WithoutCancel(ctx))) }()
	index, err := r.importArchive(ctx, file)
	if err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(index); err != nil {
			return nil, err
		}
	}
	if names, err = r.keep(ctx, index, labels, named); err == nil && len(names) == 0 {
		err = errors.New("none of its images has a name")
	}
	return names, err
}

// annotated returns the name that containerd gave an image of an archive, if it has one.
func annotated(target ocispec.Descriptor) []string {
	if name := target.Annotations[images.AnnotationImageName]; name != "" {
		return []string{name}
	}
	return nil
}

// keep unpacks the named images of a list, and names them. It returns the first name of each.
func (r *Runtime) keep(ctx context.Context, index ocispec.Index, labels map[string]string, named func(ocispec.Descriptor) []string) (names []string, err error) {
	for _, target := range index.Manifests { // before the first name is given
		for _, name := range named(target) {
			if err := (Image{Ref: name, Target: target}).checkDigest(); err != nil {
				return nil, err
			}
			if labels[originLabel] == string(OfApplication) {
				if err := r.checkReplaced(ctx, name, target.Digest, labels[archiveLabel]); err != nil {
					return nil, err
				}
			}
		}
	}
	cs := r.client.ContentStore()
	// an index may name manifests of platforms that the archive lacks
	there := images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		children, err := images.Children(ctx, cs, desc)
		if errdefs.IsNotFound(err) {
			err = nil
		}
		return children, err
	})
	for _, target := range index.Manifests {
		all := named(target)
		if len(all) == 0 {
			continue
		}
		if err := images.Walk(ctx, images.SetChildrenMappedLabels(cs, there, nil), target); err != nil {
			return names, err
		}
		if err := r.handle(Image{Ref: all[0], Target: target}).Unpack(ctx, "", durably); err != nil {
			if errdefs.IsNotFound(err) {
				err = fmt.Errorf("%w; the file lacks content for this host, or it is damaged: copy it again", err)
			}
			return names, fmt.Errorf("image %s: unpack: %w", all[0], err)
		}
		for _, name := range all {
			if err := r.name(ctx, images.Image{Name: name, Target: target, Labels: labels}); err != nil {
				return names, err
			}
		}
		names = append(names, all[0])
	}
	return names, nil
}

// importArchive stores the content of an archive and returns the list of its images.
func (r *Runtime) importArchive(ctx context.Context, file io.Reader) (index ocispec.Index, err error) {
	buffered := bufio.NewReader(file)
	var plain io.Reader = buffered
	if head, _ := buffered.Peek(2); string(head) == "\x1f\x8b" { // RFC 1952 §2.3.1
		gz, err := gzip.NewReader(buffered)
		if err != nil {
			return index, err
		}
		defer gz.Close()
		plain = gz
	}
	cs := r.client.ContentStore()
	target, err := archive.ImportIndex(ctx, cs, plain)
	if _, rest := io.Copy(io.Discard, plain); rest != nil || err != nil {
		return index, errors.Join(err, rest)
	}
	if _, err := io.Copy(io.Discard, buffered); err != nil { // the verdict on the whole file comes at its end
		return index, err
	}
	data, err := content.ReadBlob(ctx, cs, target)
	if err != nil {
		return index, err
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return index, fmt.Errorf("list of images: %w", err)
	}
	return index, nil
}
