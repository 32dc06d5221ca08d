package image

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/compression"
	"github.com/sealift/sealift/internal/transfer"
)

// dockerArchives is the kind of fact by which the cache knows an archive that was made before. Its number changes with
// the way in which archives are made.
const dockerArchives = "docker-archives-1"

// DockerArchive returns an image as one file <id>.tar.gz below dir, in the form of `docker save IMAGE | gzip` that kURL's
// packages have (kURL §1.5) and `docker load` and `ctr images import` read: manifest.json, the configuration, and every layer
// unpacked, in one gzip-compressed tar. The same image yields the same bytes; they are created once and cached, from which all
// parts of the image are read.
//
// The format supports neither several platforms nor a name without a tag; both are refused. Nor does it keep the registry's
// manifest, so the digest that a node shows differs from the registry's.
func DockerArchive(ctx context.Context, dir string, r Resolved, c *cache.Cache) (bundle.File, error) {
	file, err := dockerArchive(ctx, dir, r, c)
	if err != nil {
		return bundle.File{}, fmt.Errorf("docker-archive of image %s: %w", r.Ref, err)
	}
	return file, nil
}

func dockerArchive(ctx context.Context, dir string, r Resolved, c *cache.Cache) (bundle.File, error) {
	ref, err := ParseReference(r.Ref)
	if err != nil {
		return bundle.File{}, err
	}
	switch {
	case len(r.Manifests) != 1:
		return bundle.File{}, fmt.Errorf("the format holds one platform, not %d; build a package for each", len(r.Manifests))
	case ref.Tag() == "":
		return bundle.File{}, errors.New("the format cannot store a digest; name the image with a tag, too")
	}
	a := &archiveMaker{cache: c, image: r.Manifests[0], name: ref.Repository() + ":" + ref.Tag()}
	key := a.name + " " + a.image.Digest
	var known bundle.Blob
	if c.Recall(dockerArchives, key, &known) {
		if size, ok := c.Use(known.SHA256); ok && size == known.Size {
			return c.File(path.Join(dir, r.ID+".tar.gz"), known), nil
		}
	}
	if known, err = a.make(ctx); err != nil {
		return bundle.File{}, err
	}
	if err := c.Remember(dockerArchives, key, known); err != nil {
		return bundle.File{}, err
	}
	return c.File(path.Join(dir, r.ID+".tar.gz"), known), nil
}

// archiveMaker writes one docker-archive.
type archiveMaker struct {
	cache *cache.Cache
	image Manifest
	name  string // with a tag
}

// layerTar is a layer of a docker-archive.
type layerTar struct {
	blob   Descriptor
	diffID string // sha256 of the tar, hex
	size   int64  // of the tar
}

func (l layerTar) path() string { return l.diffID + "/layer.tar" }

func (a *archiveMaker) make(ctx context.Context) (bundle.Blob, error) {
	config, err := a.cache.Read(a.image.Config.hex(), maxConfig)
	if err != nil {
		return bundle.Blob{}, err
	}
	layers, err := a.measure(ctx, config)
	if err != nil {
		return bundle.Blob{}, err
	}
	w, err := a.cache.Create()
	if err != nil {
		return bundle.Blob{}, err
	}
	defer w.Discard()
	buffered := bufio.NewWriterSize(w, 256<<10)
	gz := gzip.NewWriter(buffered)
	if err := a.write(ctx, tar.NewWriter(gz), config, layers); err != nil {
		return bundle.Blob{}, err
	}
	if err := errors.Join(gz.Close(), buffered.Flush()); err != nil {
		return bundle.Blob{}, err
	}
	size := w.Size()
	digest, err := w.Commit("")
	return bundle.Blob{SHA256: digest, Size: size}, err
}

// measure unpacks every layer once, since a tar needs sizes first, and checks it against the configuration.
func (a *archiveMaker) measure(ctx context.Context, config []byte) ([]layerTar, error) {
	var parsed struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(parsed.RootFS.DiffIDs) != len(a.image.Layers) {
		return nil, fmt.Errorf("the configuration has %d layers, the manifest %d", len(parsed.RootFS.DiffIDs), len(a.image.Layers))
	}
	var layers []layerTar
	for i, blob := range a.image.Layers {
		sum := sha256.New()
		size, err := a.unpack(ctx, sum, blob)
		if err != nil {
			return nil, err
		}
		l := layerTar{blob: blob, diffID: hex.EncodeToString(sum.Sum(nil)), size: size}
		if want := parsed.RootFS.DiffIDs[i]; want != "sha256:"+l.diffID {
			return nil, fmt.Errorf("layer %s unpacks to sha256:%s, the configuration says %s", blob.Digest, l.diffID, want)
		}
		layers = append(layers, l)
	}
	return layers, nil
}

// unpack writes the tar of a layer, whatever its compression, and returns its size in bytes.
func (a *archiveMaker) unpack(ctx context.Context, w io.Writer, blob Descriptor) (int64, error) {
	f, err := a.cache.Open(blob.hex())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := compression.NewReader(transfer.ContextReader(ctx, f), maxWindow)
	if err != nil {
		return 0, fmt.Errorf("layer %s: %w", blob.Digest, err)
	}
	defer r.Close()
	size, err := io.Copy(w, r)
	if err != nil {
		return 0, fmt.Errorf("unpack layer %s: %w", blob.Digest, err)
	}
	return size, nil
}

// maxWindow bounds the memory that a zstd layer may demand, in bytes. The zstd program accepts as much by default; levels above
// 19 need more than the 8 MiB that RFC 8878 §3.1.1.1.2 requires of every decoder.
const maxWindow = 128 << 20

// write puts manifest.json first: a reader of the list reads no layer.
func (a *archiveMaker) write(ctx context.Context, t *tar.Writer, config []byte, layers []layerTar) error {
	names := []string{}
	for _, l := range layers {
		names = append(names, l.path())
	}
	configName := strings.TrimPrefix(a.image.Config.Digest, "sha256:") + ".json"
	manifest, err := json.Marshal([]any{map[string]any{"Config": configName, "RepoTags": []string{a.name}, "Layers": names}})
	if err != nil {
		return fmt.Errorf("encode manifest.json: %w", err)
	}
	if err := writeTarFile(t, "manifest.json", manifest); err != nil {
		return err
	}
	if err := writeTarFile(t, configName, config); err != nil {
		return err
	}
	written := make(map[string]bool)
	for _, l := range layers {
		if written[l.diffID] {
			continue
		}
		written[l.diffID] = true
		if err := t.WriteHeader(tarHeader(l.path(), l.size)); err != nil {
			return err
		}
		if _, err := a.unpack(ctx, t, l.blob); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeTarFile(t *tar.Writer, name string, data []byte) error {
	if err := t.WriteHeader(tarHeader(name, int64(len(data)))); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}

// tarHeader has nothing in it that differs from one build to the next.
func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}
}
