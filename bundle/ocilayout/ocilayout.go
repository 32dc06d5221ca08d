// Package ocilayout reads the OCI image layouts of packages: which images a layout has, and the documents of each.
//
// The package reads indexes, manifests and configurations, with limits on what hostile ones cost. It never opens a layer, and
// writes nothing.
package ocilayout

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// nameAnnotation has the full name of an image. containerd reads it before ocispec.AnnotationRefName.
const nameAnnotation = "io.containerd.image.name"

// ErrDocument reports a document that is not what its digest or its media type says, or exceeds a limit. Errors of reading the
// archive are others.
var ErrDocument = errors.New("invalid document of an image")

// Image is a named image of a layout.
type Image struct {
	Ref string // as upstream names it
	// Target is an index or a manifest: its media type, digest and size.
	Target ocispec.Descriptor
	// Subject is the digest of what it is attached to, of a signature, an SBOM or an attestation.
	Subject string
}

// Layout is an OCI image layout among the files of an archive or a package.
type Layout struct {
	Images []Image // in the order of the layout

	dir  string
	has  func(name string) bool
	read func(name string, limit int64) ([]byte, error)
}

// Open reads the list of images in a folder of an archive, such as addons/flannel/0.26.7/images. A folder without a layout has no
// images.
func Open(a *bundle.Archive, dir string) (*Layout, error) {
	has := func(name string) bool { _, ok := a.Entry(name); return ok }
	return open(&Layout{dir: dir, has: has, read: a.ReadFile})
}

// DockerArchives lists the docker-archives in a folder of images, which may have a layout, too.
func DockerArchives(a *bundle.Archive, dir string) (list []bundle.Entry) {
	for _, e := range a.Below(dir) {
		if path.Dir(e.Path) == dir && strings.HasSuffix(e.Path, ".tar.gz") {
			list = append(list, e)
		}
	}
	return list
}

// OfPackage opens the layout of a package in an archive. A package that has its images as docker-archives is an error.
func OfPackage(a *bundle.Archive, p bundle.PackageInfo) (*Layout, error) {
	l, err := Open(a, path.Join(p.Dir(), "images"))
	if err == nil && len(p.Images) > 0 && !l.has(path.Join(l.dir, ocispec.ImageIndexFile)) {
		err = errors.New("has its images as docker-archives, whose digests are not upstream's; build it without --image-format")
	}
	if err != nil {
		return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
	}
	return l, nil
}

// OfFiles reads the list of images in a folder among files that are not packed yet.
func OfFiles(files []bundle.File, dir string) (*Layout, error) {
	byPath := make(map[string]bundle.File, len(files))
	for _, f := range files {
		byPath[f.Path] = f
	}
	has := func(name string) bool { _, ok := byPath[name]; return ok }
	read := func(name string, limit int64) (_ []byte, err error) {
		f, ok := byPath[name]
		if !ok {
			return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		if f.Size > limit {
			return nil, fmt.Errorf("%s: has %d bytes, and the limit is %d", name, f.Size, limit)
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		return io.ReadAll(io.LimitReader(r, limit))
	}
	return open(&Layout{dir: dir, has: has, read: read})
}

// OfBlobs is a layout without names: its documents are blobs that are kept elsewhere, by the hexadecimal digits of their sha256. read
// returns at most limit bytes, and fails for a blob that has more.
func OfBlobs(has func(sha256 string) bool, read func(sha256 string, limit int64) ([]byte, error)) *Layout {
	of := func(name string) string {
		if dir, sha256 := path.Split(name); dir == path.Join(ocispec.ImageBlobsDir, digest.SHA256.String())+"/" {
			return sha256
		}
		return ""
	}
	return &Layout{
		has: func(name string) bool { sha256 := of(name); return sha256 != "" && has(sha256) },
		read: func(name string, limit int64) ([]byte, error) {
			sha256 := of(name)
			if sha256 == "" {
				return nil, fmt.Errorf("%s: %w: blobs have a sha256", name, fs.ErrNotExist)
			}
			return read(sha256, limit)
		},
	}
}

// Repository is the name of an image without its tag and its digest.
func Repository(ref string) string {
	repository, _, _ := strings.Cut(ref, "@")
	if at := strings.LastIndexByte(repository, ':'); at > strings.LastIndexByte(repository, '/') {
		repository = repository[:at]
	}
	return repository
}

// Below reports whether a repository is the named one or below it: docker.io/library/busybox is below docker.io/library.
func Below(repository, name string) bool {
	return repository == name || strings.HasPrefix(repository, name+"/")
}

// Names are the annotations by which a layout names an image: skopeo reads one, containerd the other.
func Names(ref string) map[string]string {
	return map[string]string{ocispec.AnnotationRefName: ref, nameAnnotation: ref}
}

func open(l *Layout) (*Layout, error) {
	var err error
	l.Images, err = l.list(ocispec.ImageIndexFile)
	return l, err
}

// Attached lists what upstream attached to the images of the layout (bundle.ReferrersName).
func (l *Layout) Attached() ([]Image, error) {
	images, err := l.list(bundle.ReferrersName)
	for _, i := range images {
		if i.Subject == "" {
			return nil, fmt.Errorf("%s does not say what %s is attached to", path.Join(l.dir, bundle.ReferrersName), i.Ref)
		}
	}
	return images, err
}

// list reads one of the indexes of the layout. It is empty if the archive lacks it.
func (l *Layout) list(file string) (images []Image, err error) {
	name := path.Join(l.dir, file)
	if !l.has(name) {
		return nil, nil
	}
	data, err := l.read(name, maxDocument)
	if err != nil {
		return nil, err
	}
	index, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, d := range index.Manifests {
		ref := d.Annotations[nameAnnotation]
		if ref == "" {
			ref = d.Annotations[ocispec.AnnotationRefName]
		}
		if ref == "" {
			return nil, fmt.Errorf("%s: image %s has no name", name, d.Digest)
		}
		images = append(images, Image{Ref: ref, Target: bare(d), Subject: d.Annotations[bundle.SubjectAnnotation]})
	}
	return images, nil
}

// bare returns a descriptor without annotations, which belong to the place where it was found.
func bare(d ocispec.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size, Platform: d.Platform, URLs: d.URLs}
}

// Blob returns the path of a blob in the archive, whether the archive has it or not.
func (l *Layout) Blob(d digest.Digest) string { return path.Join(l.dir, Path(d)) }

// Path returns the path of a blob in a layout. The digest must be valid.
func Path(d digest.Digest) string {
	return path.Join(ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// Document reads an index, a manifest or a configuration, and compares it with its digest.
func (l *Layout) Document(d digest.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("%w: digest %q: %w", ErrDocument, d, err)
	}
	data, err := l.read(l.Blob(d), maxDocument)
	if err == nil && d.Algorithm().FromBytes(data) != d {
		err = fmt.Errorf("%w: %s: its name is not the digest of its content", ErrDocument, d)
	}
	return data, err
}
