package lean

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
)

// Extracted is an image in an extracted layout.
type Extracted struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"` // in the layout
	// Original is the digest that the image has everywhere else, if it differs: a manifest that names lean layers is another one.
	Original string `json:"original,omitempty"`
	// Layers are the layers of the image that have another compression than the original's.
	Layers []ChangedLayer `json:"layers,omitempty"`
}

// ChangedLayer is a layer with another compression.
type ChangedLayer struct {
	Original string `json:"original"` // digest of the layer that the original manifest names
	Digest   string `json:"digest"`   // in the layout
}

// Extract writes the images of an archive into an empty folder, as an OCI image layout that skopeo reads. Lean layers stay as they
// are, and manifests that name them are rewritten. Every blob is verified.
func Extract(ctx context.Context, a *bundle.Archive, root *os.Root) ([]Extracted, error) {
	x := extraction{archive: a, root: root, done: make(map[string]bool)}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	list := []Extracted{}
	seen := make(map[string]bool)
	for _, p := range a.Index.Packages {
		dir := path.Join(p.Dir(), "images")
		if _, ok := a.Entry(path.Join(dir, ocispec.ImageIndexFile)); !ok {
			if len(p.Images) > 0 {
				return nil, fmt.Errorf("package %s %s has its images as docker-archives; unpack these with tar", p.Name, p.Version)
			}
			continue
		}
		own := ocispec.Index{}
		if err := a.ReadJSON(path.Join(dir, ocispec.ImageIndexFile), maxDocument, &own); err != nil {
			return nil, err
		}
		for _, d := range own.Manifests {
			ref := d.Annotations[ocispec.AnnotationRefName]
			if seen[ref] {
				continue
			}
			seen[ref] = true
			made := Extracted{Ref: ref}
			now, err := x.target(ctx, dir, d, &made)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", ref, err)
			}
			if made.Digest = now.Digest.String(); now.Digest != d.Digest {
				made.Original = d.Digest.String()
			}
			index.Manifests = append(index.Manifests, now)
			list = append(list, made)
		}
	}
	marker, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err == nil {
		err = x.write(ocispec.ImageLayoutFile, bytes.NewReader(marker))
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	return list, x.write(ocispec.ImageIndexFile, bytes.NewReader(text)) // last: an interrupted extraction leaves no layout
}

type extraction struct {
	archive *bundle.Archive
	root    *os.Root
	done    map[string]bool // written files
}

func blobPath(d digest.Digest) string {
	return path.Join(ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// target writes an index or a manifest with everything that it names and the archive has, and returns its descriptor in the layout.
func (x *extraction) target(ctx context.Context, dir string, d ocispec.Descriptor, made *Extracted) (ocispec.Descriptor, error) {
	if err := d.Digest.Validate(); err != nil {
		return d, err
	}
	name := path.Join(dir, blobPath(d.Digest))
	var doc document
	if err := x.archive.ReadJSON(name, maxDocument, &doc); err != nil {
		return d, err
	}
	changed := make(map[digest.Digest]ocispec.Descriptor)
	for _, child := range doc.Manifests {
		if _, ok := x.archive.Entry(path.Join(dir, blobPath(child.Digest))); !ok {
			continue // of another platform
		}
		now, err := x.target(ctx, dir, child, made)
		if err != nil {
			return d, err
		}
		if now.Digest != child.Digest {
			changed[child.Digest] = now
		}
	}
	for _, blob := range append([]ocispec.Descriptor{doc.Config}, doc.Layers...) {
		if blob.Digest == "" {
			continue
		}
		now, err := x.blob(ctx, dir, blob)
		if err != nil {
			return d, err
		}
		if now.Digest != blob.Digest {
			changed[blob.Digest] = now
			made.Layers = append(made.Layers, ChangedLayer{Original: blob.Digest.String(), Digest: now.Digest.String()})
		}
	}
	data, err := x.archive.ReadFile(name, maxDocument)
	if err != nil {
		return d, err
	}
	if len(changed) > 0 {
		if data, err = rewrite(data, &d, changed); err != nil {
			return d, err
		}
	}
	return d, x.write(blobPath(d.Digest), bytes.NewReader(data))
}

// blob writes a configuration or a layer, and returns its descriptor in the layout.
func (x *extraction) blob(ctx context.Context, dir string, d ocispec.Descriptor) (ocispec.Descriptor, error) {
	if err := errors.Join(ctx.Err(), d.Digest.Validate()); err != nil {
		return d, err
	}
	name := path.Join(dir, blobPath(d.Digest))
	if e, ok := x.archive.LeanLayer(name); ok {
		name = e.Path
		d.MediaType, d.Digest, d.Size = ocispec.MediaTypeImageLayerZstd, digest.NewDigestFromEncoded(digest.SHA256, e.SHA256), e.Size
	}
	if x.done[blobPath(d.Digest)] {
		return d, nil
	}
	content, err := x.archive.OpenEntry(name)
	if err != nil {
		return d, err
	}
	return d, errors.Join(x.write(blobPath(d.Digest), content), content.Close())
}

// write writes one file. It has its name only when it is complete and verified.
func (x *extraction) write(name string, content io.Reader) error {
	if x.done[name] {
		return nil
	}
	if err := x.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	part := name + bundle.Unfinished
	f, err := x.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		if gone := x.root.Remove(part); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return err
	}
	x.done[name] = true
	return x.root.Rename(part, name)
}

// rewrite replaces descriptors of an index or a manifest and makes d that of the result. Docker's media types have no layers that are
// compressed with zstd, so the result has OCI's. Other fields stay.
func rewrite(data []byte, d *ocispec.Descriptor, changed map[digest.Digest]ocispec.Descriptor) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil {
		return nil, err
	}
	if _, ok := doc["mediaType"]; ok {
		doc["mediaType"] = ociType(d.MediaType)
	}
	d.MediaType = ociType(d.MediaType)
	for _, field := range []string{"manifests", "config", "layers"} {
		list, ok := doc[field].([]any)
		if !ok {
			list = []any{doc[field]}
		}
		for _, one := range list {
			was, ok := one.(map[string]any)
			if !ok {
				continue
			}
			name, _ := was["digest"].(string)
			kind, _ := was["mediaType"].(string)
			was["mediaType"] = ociType(kind)
			if now, ok := changed[digest.Digest(name)]; ok {
				was["mediaType"], was["digest"], was["size"] = now.MediaType, now.Digest.String(), now.Size
			}
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	d.Digest, d.Size = digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum[:])), int64(len(text))
	return text, nil
}

// ociType returns the media type of OCI for one of Docker's, whose documents and layers are the same.
func ociType(mediaType string) string {
	switch mediaType {
	case dockerIndex:
		return ocispec.MediaTypeImageIndex
	case dockerManifest:
		return ocispec.MediaTypeImageManifest
	case dockerConfig:
		return ocispec.MediaTypeImageConfig
	case dockerLayer:
		return ocispec.MediaTypeImageLayer
	case dockerGzipLayer:
		return ocispec.MediaTypeImageLayerGzip
	}
	return mediaType
}
