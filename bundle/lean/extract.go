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
	"github.com/sealift/sealift/bundle/ocilayout"
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
	if err := ocilayout.CheckForms(a); err != nil {
		return nil, err
	}
	x := extraction{archive: a, root: root, done: make(map[string]bool)}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	list := []Extracted{}
	seen := make(map[string]bool)
	for _, p := range a.Index.Packages {
		layout, err := ocilayout.OfPackage(a, p)
		if err != nil {
			return nil, err
		}
		for _, i := range layout.Images {
			if seen[i.Ref] {
				continue
			}
			seen[i.Ref] = true
			made := Extracted{Ref: i.Ref}
			target, err := layout.Read(i.Target)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", i.Ref, err)
			}
			now, err := x.manifest(ctx, layout, target, &made)
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", i.Ref, err)
			}
			if made.Digest = now.Digest.String(); now.Digest != target.Digest {
				made.Original = target.Digest.String()
			}
			now.Annotations = ocilayout.Names(i.Ref)
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

// manifest writes an index or a manifest with everything that it names and the archive has, and returns its descriptor in the layout.
func (x *extraction) manifest(ctx context.Context, layout *ocilayout.Layout, m ocilayout.Manifest, made *Extracted) (ocispec.Descriptor, error) {
	changed := make(map[digest.Digest]ocispec.Descriptor)
	for _, child := range m.Children {
		now, err := x.manifest(ctx, layout, child, made)
		if err != nil {
			return now, err
		}
		if now.Digest != child.Digest {
			changed[child.Digest] = now
		}
	}
	var blobs []ocispec.Descriptor
	if !m.Index {
		blobs = append([]ocispec.Descriptor{m.Config}, m.Layers...)
	}
	for _, blob := range blobs {
		now, err := x.blob(ctx, layout, blob)
		if err != nil {
			return now, err
		}
		if now.Digest != blob.Digest {
			changed[blob.Digest] = now
			made.Layers = append(made.Layers, ChangedLayer{Original: blob.Digest.String(), Digest: now.Digest.String()})
		}
	}
	d := m.Descriptor
	data, err := layout.Document(d.Digest)
	if err == nil && len(changed) > 0 {
		data, err = rewrite(data, &d, changed)
	}
	if err != nil {
		return d, err
	}
	return d, x.write(ocilayout.Path(d.Digest), bytes.NewReader(data))
}

// blob writes a configuration or a layer, and returns its descriptor in the layout.
func (x *extraction) blob(ctx context.Context, layout *ocilayout.Layout, d ocispec.Descriptor) (ocispec.Descriptor, error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	name := layout.Blob(d.Digest)
	if e, ok := x.archive.LeanLayer(name); ok {
		name = e.Path
		d.MediaType, d.Digest, d.Size = ocispec.MediaTypeImageLayerZstd, digest.NewDigestFromEncoded(digest.SHA256, e.SHA256), e.Size
		if e.Layer.Compression == "" {
			d.MediaType = ocispec.MediaTypeImageLayer
		}
	}
	if x.done[ocilayout.Path(d.Digest)] {
		return d, nil
	}
	content, err := x.archive.OpenEntry(name)
	if err != nil {
		return d, err
	}
	return d, errors.Join(x.write(ocilayout.Path(d.Digest), content), content.Close())
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
