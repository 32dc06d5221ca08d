package runtime

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/compression"
	"github.com/sealift/sealift/internal/regularfile"
)

// Foreign is a file or a folder with images that is not a bundle: an OCI layout, in a folder or as a tar, or a docker-archive. A tar may be
// compressed with gzip.
type Foreign struct {
	// Names are the names of the images. They are not known before a compressed tar is read.
	Names []string
	// Images are the same, with their digests as far as they are known.
	Images []Image

	path    string
	name    string // of the only image, if the file has no name for it
	unnamed int    // images that the file has no name for
	sizes   map[string]size
}

// maxNames bounds the documents with the names of images.
const maxNames = 20 << 20

// OpenForeign reads what images a file or folder has, and how large they are. name is the name of an image that has none there; "" if it must
// have one.
func OpenForeign(file, name string) (_ *Foreign, err error) {
	f := &Foreign{path: file, sizes: make(map[string]size)}
	if name != "" {
		if f.name, err = normalized(name); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if err := f.each(f.add); err != nil {
			return nil, err
		}
		return f, f.checkNames()
	}
	r, err := regularfile.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	whole := sized{info.Size(), true, func(data []byte, off int64) error { _, err := r.ReadAt(data, off); return err }}
	head, err := whole.read(0, tarMagicAt+len(tarMagic))
	if err != nil {
		return nil, err
	}
	if compression.Of(head) == compression.Gzip {
		unpacked, err := whole.unpacked()
		f.sizes[""] = size{unpacked, unpacked}
		return f, err
	}
	if err := f.scan(r, info.Size()); err != nil {
		return nil, err
	}
	return f, f.checkNames()
}

// checkNames refuses a file without names, and a name that would be that of several images.
func (f *Foreign) checkNames() error {
	switch {
	case len(f.Names) == 0 && f.unnamed == 0:
		return fmt.Errorf("%s is neither a bundle nor an archive or layout of images", f.path)
	case f.name != "" && f.unnamed == 0:
		return fmt.Errorf("%s has names for its images; leave --name out", f.path)
	case f.name != "" && f.unnamed > 1:
		return fmt.Errorf("%s has %d images without a name, and --name is for one", f.path, f.unnamed)
	case len(f.Names) == 0:
		return fmt.Errorf("%s has no name for its image; name it with --name", f.path)
	case f.name == "" && f.unnamed > 0:
		return fmt.Errorf("%s has an image without a name beside %s; name it with --name, or name each in the file", f.path, f.Names[0])
	}
	return nil
}

// normalized completes a name as container runtimes do: busybox is docker.io/library/busybox:latest.
func normalized(name string) (string, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", fmt.Errorf("%q is not a name of an image: %w", name, err)
	}
	return named.String(), nil
}

// each calls do for each regular file of an OCI layout in a folder.
func (f *Foreign) each(do func(name string, size int64, r io.ReaderAt) error) (err error) {
	root, err := files.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat(ocispec.ImageLayoutFile); err != nil {
		return fmt.Errorf("%s is not an OCI layout: %w", f.path, err)
	}
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		r, err := regularfile.OpenIn(root, filepath.FromSlash(name))
		if err != nil {
			return err
		}
		defer r.Close()
		info, err := r.Stat()
		if err != nil {
			return err
		}
		return do(name, info.Size(), r)
	})
}

// scan reads the headers of a tar of some size.
func (f *Foreign) scan(r *os.File, size int64) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is neither a bundle nor an archive of images: %w", f.path, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		at, err := r.Seek(0, io.SeekCurrent)
		if err == nil && at+header.Size > size {
			err = fmt.Errorf("%s: %s: %w; copy it again", f.path, header.Name, io.ErrUnexpectedEOF)
		}
		if err == nil {
			err = f.add(path.Clean(header.Name), header.Size, io.NewSectionReader(r, at, header.Size))
		}
		if err != nil {
			return err
		}
	}
}

// add counts a file, and reads the names of images in it.
func (f *Foreign) add(name string, packed int64, r io.ReaderAt) error {
	file := sized{packed, true, func(data []byte, off int64) error { _, err := r.ReadAt(data, off); return err }}
	if name == ocispec.ImageIndexFile || name == "manifest.json" {
		if packed > maxNames {
			return fmt.Errorf("%s: %s has %d bytes, and the limit is %d", f.path, name, packed, maxNames)
		}
		data, err := file.read(0, int(packed))
		if err == nil {
			err = f.read(name, data)
		}
		return err
	}
	unpacked, err := file.unpacked()
	if err != nil {
		return fmt.Errorf("%s: %s: %w", f.path, name, err)
	}
	key := name
	if sha256, ok := strings.CutPrefix(name, path.Join(ocispec.ImageBlobsDir, digest.SHA256.String())+"/"); ok {
		key = sha256
	}
	f.sizes[key] = size{packed, unpacked}
	return nil
}

// read reads the names of images from the list of an OCI layout or of a docker-archive. 'docker save' writes both.
func (f *Foreign) read(name string, data []byte) error {
	if name == ocispec.ImageIndexFile {
		var index ocispec.Index
		if err := json.Unmarshal(data, &index); err != nil {
			return fmt.Errorf("%s: %s: %w", f.path, name, err)
		}
		return f.list(index)
	}
	var list []struct{ RepoTags []string }
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %s: %w", f.path, name, err)
	}
	var found []Image
	for _, image := range list {
		if len(image.RepoTags) == 0 {
			found = append(found, Image{})
		}
		for _, tag := range image.RepoTags {
			ref, err := normalized(tag)
			if err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
			found = append(found, Image{Ref: ref})
		}
	}
	return f.note(found)
}

// list notes the images that an index lists.
func (f *Foreign) list(index ocispec.Index) error {
	var found []Image
	for _, target := range index.Manifests {
		found = append(found, Image{Ref: nameIn(target), Target: target})
	}
	return f.note(found)
}

// note notes images. The digests of those of a docker-archive are not known before it is read.
func (f *Foreign) note(found []Image) error {
	unnamed := 0
	for _, one := range found {
		if one.Ref == "" {
			unnamed++
			one.Ref = f.name
		}
		if one.Target.Digest != "" {
			if err := one.checkDigest(); err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
		}
		if one.Ref != "" {
			f.Images = append(f.Images, one)
		}
		if one.Ref != "" && !slices.Contains(f.Names, one.Ref) {
			f.Names = append(f.Names, one.Ref)
		}
	}
	f.unnamed = max(f.unnamed, unnamed)
	return nil
}

// checkRead applies the rules for names to a whole archive: those of a compressed one are not known before.
func (f *Foreign) checkRead(index ocispec.Index) error {
	read := &Foreign{path: f.path, name: f.name}
	if err := read.list(index); err != nil {
		return err
	}
	return read.checkNames()
}

// nameIn returns the name of an image in its annotations; "" if there is none.
func nameIn(target ocispec.Descriptor) string {
	name := target.Annotations[images.AnnotationImageName]
	if ref := target.Annotations[ocispec.AnnotationRefName]; name == "" && strings.ContainsAny(ref, ":/") { // not a tag alone
		name = ref
	}
	ref, err := normalized(name)
	if err != nil {
		return ""
	}
	return ref
}

// names returns the names of an image of an archive: that of its annotations, or the given one, and the repository with the digest.
func (f *Foreign) names(target ocispec.Descriptor) []string {
	ref := cmp.Or(nameIn(target), f.name)
	if ref == "" {
		return nil
	}
	return Image{Ref: ref, Target: target}.names()
}

// Add brings the images of a file into containerd, for applications, and returns their names. Content is checked against its digests.
func (r *Runtime) Add(ctx context.Context, f *Foreign) ([]string, error) {
	with := (&Layout{Origin: OfApplication}).labels()
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		file, err := regularfile.Open(f.path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return r.importNamed(ctx, file, with, f.checkRead, f.names)
	}
	out, in := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := f.tar(in)
		written <- errors.Join(err, in.CloseWithError(err))
	}()
	names, err := r.importNamed(ctx, out, with, f.checkRead, f.names)
	return names, errors.Join(err, out.Close(), ignoreClosed(<-written))
}

// ignoreClosed drops the error of a writer whose reader has ended: the reader reports why.
func ignoreClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// tar writes an OCI layout in a folder as a tar.
func (f *Foreign) tar(w io.Writer) error {
	archive := tar.NewWriter(w)
	err := f.each(func(name string, size int64, r io.ReaderAt) error {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size}); err != nil {
			return err
		}
		_, err := io.Copy(archive, io.NewSectionReader(r, 0, size))
		return err
	})
	return errors.Join(err, archive.Close())
}

// SpaceOf is how many bytes a file with images still needs in containerd. What is there already counts nothing.
func (r *Runtime) SpaceOf(ctx context.Context, f *Foreign) (int64, error) {
	return r.space(ctx, f.sizes)
}

// Space is how many bytes the images of layouts still need in containerd. What is there already counts nothing.
func (r *Runtime) Space(ctx context.Context, layouts ...*Layout) (int64, error) {
	sizes, err := sizesOf(layouts)
	if err != nil {
		return 0, err
	}
	return r.space(ctx, sizes)
}

func (r *Runtime) space(ctx context.Context, sizes map[string]size) (total int64, err error) {
	for sha256, one := range sizes {
		d := digest.NewDigestFromEncoded(digest.SHA256, sha256)
		if d.Validate() == nil {
			info, err := r.client.ContentStore().Info(ctx, d)
			if err != nil && !errdefs.IsNotFound(err) {
				return 0, err
			}
			if err == nil {
				one.packed = 0
			}
			if info.Labels[labels.LabelUncompressed] != "" { // it was unpacked
				one.unpacked = 0
			}
		}
		total += one.packed + one.unpacked
	}
	return total, nil
}
