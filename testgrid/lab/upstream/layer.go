package upstream

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

// The files of a component that is a layer.
const (
	layerBlob = "layer.tar.gz"
	layerInfo = "layer.json"
)

// FileLayer is an image layer of executables.
type FileLayer struct {
	Files []Placed
}

// Needs implements Recipe.
func (l FileLayer) Needs() []string { return componentsOf(l.Files) }

// on implements crossed.
func (l FileLayer) on(arch string, id func(string) string) Recipe {
	return FileLayer{Files: placedOn(arch, id, l.Files)}
}

// Tools implements Recipe.
func (l FileLayer) Tools() []debian.Tool { return nil }

// Make implements Recipe.
func (l FileLayer) Make(ctx context.Context, w *Workshop, dir string) error {
	return writeLayer(dir, func(t *tar.Writer) error { return writeExecutables(ctx, w, t, l.Files) })
}

// BusyboxLayer is an image layer with busybox and a link for each of its commands, as the world's busybox image has them.
type BusyboxLayer struct {
	Binary  FileOf
	Folders []string // empty ones beside bin; tmp is world-writable
	// List is the same busybox for this machine, which lists its commands; empty if Binary runs here.
	List FileOf `json:",omitzero"`
}

// on implements crossed.
func (l BusyboxLayer) on(_ string, id func(string) string) Recipe {
	l.List = l.Binary
	l.Binary.Component = id(l.Binary.Component)
	return l
}

// Needs implements Recipe.
func (l BusyboxLayer) Needs() []string {
	if l.List.Component != "" {
		return []string{l.Binary.Component, l.List.Component}
	}
	return []string{l.Binary.Component}
}

// Tools implements Recipe.
func (l BusyboxLayer) Tools() []debian.Tool { return nil }

// Make implements Recipe.
func (l BusyboxLayer) Make(ctx context.Context, w *Workshop, dir string) error {
	lister := l.Binary
	if l.List.Component != "" {
		lister = l.List
	}
	binary, err := w.File(ctx, lister)
	if err != nil {
		return err
	}
	out, err := run(ctx, exec.CommandContext(ctx, binary, "--list"))
	if err != nil {
		return err
	}
	commands := strings.Fields(string(out))
	slices.Sort(commands)
	return writeLayer(dir, func(t *tar.Writer) error {
		for _, folder := range l.Folders {
			mode := int64(0o755)
			if folder == "tmp" {
				mode = 0o1777
			}
			if err := t.WriteHeader(&tar.Header{Name: folder + "/", Typeflag: tar.TypeDir, Mode: mode, ModTime: epoch}); err != nil {
				return err
			}
		}
		if err := writeExecutables(ctx, w, t, []Placed{{l.Binary, "bin/busybox"}}); err != nil {
			return err
		}
		for _, command := range commands {
			if command == "busybox" {
				continue
			}
			err := t.WriteHeader(&tar.Header{Name: path.Join("bin", command), Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777, ModTime: epoch})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// SystemLayer is an image layer with a small Debian system.
type SystemLayer struct {
	Suite    string
	Packages []string
	Keep     []string // files that are also kept beside the layer, under their base names
	Arch     string   `json:",omitempty"` // of the system; empty for amd64
	// Links are those that the packages' own scripts make, which do not run for another architecture: from path to target.
	Links map[string]string `json:",omitempty"`
}

// on implements crossed.
func (l SystemLayer) on(arch string, _ func(string) string) Recipe {
	l.Arch, l.Links = arch, alternatives()
	return l
}

// Needs implements Recipe.
func (l SystemLayer) Needs() []string { return nil }

// Tools implements Recipe.
func (l SystemLayer) Tools() []debian.Tool { return debian.TreeTools() }

// Make implements Recipe.
func (l SystemLayer) Make(ctx context.Context, _ *Workshop, dir string) error {
	tree := filepath.Join(dir, "tree")
	if err := makeTree(ctx, tree, l.Suite, l.Arch, l.Packages); err != nil {
		return err
	}
	for name, target := range l.Links {
		if err := os.Symlink(target, filepath.Join(tree, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	if err := debian.StripTree(tree); err != nil {
		return err
	}
	for _, name := range l.Keep {
		if err := copyFile(filepath.Join(tree, filepath.FromSlash(name)), filepath.Join(dir, path.Base(name))); err != nil {
			return err
		}
	}
	if err := writeLayer(dir, func(t *tar.Writer) error { return writeTree(t, tree) }); err != nil {
		return err
	}
	return os.RemoveAll(tree)
}

// SystemTree is the tree of a small Debian system, for a host to run on.
type SystemTree struct {
	Suite    string
	Packages []string
	Arch     string `json:",omitempty"` // of the system, whose packages are only unpacked; empty for amd64
}

// TreeName is the folder in a SystemTree's component.
const TreeName = "tree"

// Needs implements Recipe.
func (s SystemTree) Needs() []string { return nil }

// Tools implements Recipe.
func (s SystemTree) Tools() []debian.Tool { return debian.TreeTools() }

// Make implements Recipe.
func (s SystemTree) Make(ctx context.Context, _ *Workshop, dir string) error {
	return makeTree(ctx, filepath.Join(dir, TreeName), s.Suite, s.Arch, s.Packages)
}

// layerDescription describes a layer in a manifest and a config.
type layerDescription struct {
	Digest v1.Hash `json:"digest"` // of the compressed bytes
	DiffID v1.Hash `json:"diffID"` // of the tar in them
	Size   int64   `json:"size"`   // compressed, in bytes
}

// writeLayer compresses what fill writes into dir and describes it there, in one pass.
func writeLayer(dir string, fill func(*tar.Writer) error) error {
	f, err := os.Create(filepath.Join(dir, layerBlob))
	if err != nil {
		return err
	}
	defer f.Close()
	plain, packed := sha256.New(), sha256.New()
	z := gzip.NewWriter(io.MultiWriter(f, packed))
	t := tar.NewWriter(io.MultiWriter(z, plain))
	if err := errors.Join(fill(t), t.Close(), z.Close()); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	description, err := json.Marshal(layerDescription{Digest: digest(packed), DiffID: digest(plain), Size: size})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, layerInfo), description, 0o644), f.Close())
}

func digest(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// layer is a made layer as an image sees it. Its digests are not computed again.
type layer struct {
	layerDescription
	path      string
	mediaType types.MediaType
}

func openLayer(dir string, mediaType types.MediaType) (*layer, error) {
	data, err := os.ReadFile(filepath.Join(dir, layerInfo))
	if err != nil {
		return nil, err
	}
	l := &layer{path: filepath.Join(dir, layerBlob), mediaType: mediaType}
	if err := json.Unmarshal(data, &l.layerDescription); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", layerInfo, dir, err)
	}
	return l, nil
}

func (l *layer) Digest() (v1.Hash, error)            { return l.layerDescription.Digest, nil }
func (l *layer) DiffID() (v1.Hash, error)            { return l.layerDescription.DiffID, nil }
func (l *layer) Size() (int64, error)                { return l.layerDescription.Size, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.mediaType, nil }
func (l *layer) Compressed() (io.ReadCloser, error)  { return os.Open(l.path) }
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}
