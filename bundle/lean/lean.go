// Package lean makes the lean forms of image layers: each layer of an OCI image layout is unpacked and compressed again, once. The
// images keep their digests, because their manifests and configurations stay as they are.
//
// The package reads layouts and compresses. It fetches nothing, and knows nothing about hosts.
package lean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/atomicfile"
)

// form ends the names of files in a spool. Another way to compress needs another name.
const form = ".lean-1"

// Files returns the files of a package with the layers of its images in their lean form, where that is smaller. dir is the folder
// of the OCI layout. spool is a folder that keeps the forms, by the digests of the layers. A layer that unpacks to something else
// than the configuration of its image says is an error.
func Files(ctx context.Context, dir string, files []bundle.File, spool string) ([]bundle.File, error) {
	layers, err := layers(files, dir)
	if err != nil {
		return nil, err
	}
	c := compressor{spool: spool}
	replaced := make(map[string]bundle.File, len(layers))
	taken := make(map[string]bool, len(layers))
	for _, one := range layers { // one after the other: each takes 60 MiB, and a build has no more than 128
		made, err := c.lean(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("compress layer %s again: %w", one.file.Path, err)
		}
		// Two layers may unpack to the same. The second one stays as it is.
		if made != nil && !taken[made.Path] {
			taken[made.Path], replaced[one.file.Path] = true, *made
		}
	}
	out := slices.Clone(files)
	for i, f := range out {
		if l, ok := replaced[f.Path]; ok {
			out[i] = l
		}
	}
	return out, nil
}

// ErrBusy reports that a spool is making the lean layers of another package.
var ErrBusy = errors.New("the layers of another package are being compressed")

// Spool keeps lean forms in a folder. It makes those of one package at a time, because each layer takes 60 MiB meanwhile.
type Spool struct {
	dir     string
	making  sync.Mutex
	checked sync.Map // names of companions that were compared with their indexes
}

// NewSpool returns a spool in a folder, which may be missing.
func NewSpool(dir string) *Spool { return &Spool{dir: dir} }

// Companion returns an archive with the lean forms of the layers of a package, for bundle.Bundle.Lean, or nil if no layer has one.
// The archive is a file in the spool. Close it. If the spool lacks it and is busy, the error is ErrBusy.
func (s *Spool) Companion(ctx context.Context, a *bundle.Archive) (*bundle.Archive, error) {
	info := a.Index.Packages[0]
	name := filepath.Join(s.dir, a.Digest+form+".tar.gz")
	made, err := s.open(ctx, name)
	if err != nil {
		if !s.making.TryLock() {
			return nil, ErrBusy
		}
		err := makeCompanion(ctx, a, s.dir, name)
		s.making.Unlock()
		if err != nil {
			return nil, fmt.Errorf("lean layers of %s %s: %w", info.Name, info.Version, err)
		}
		if made, err = s.open(ctx, name); err != nil {
			return nil, err
		}
	}
	if len(made.Index.Entries) == 0 {
		return nil, made.Close()
	}
	return made, nil
}

// open opens a companion. The first call compares all of it with its index: the disk may have damaged it.
func (s *Spool) open(ctx context.Context, name string) (*bundle.Archive, error) {
	a, err := bundle.Open(name)
	if err != nil {
		return nil, err
	}
	if _, ok := s.checked.Load(name); !ok {
		if err := a.Verify(ctx); err != nil {
			return nil, errors.Join(err, a.Close())
		}
		s.checked.Store(name, true)
	}
	return a, nil
}

func makeCompanion(ctx context.Context, a *bundle.Archive, spool, name string) error {
	if err := os.MkdirAll(spool, 0o755); err != nil {
		return err
	}
	info := a.Index.Packages[0]
	var files []bundle.File
	for _, e := range a.Index.Entries {
		files = append(files, bundle.File{Path: e.Path, Mode: os.FileMode(e.Mode), Size: e.Size, SHA256: e.SHA256, Layer: e.Layer,
			Open: func() (io.ReadCloser, error) { return a.OpenEntry(e.Path) }})
	}
	all, err := Files(ctx, path.Join(info.Dir(), "images"), files, spool)
	if err != nil {
		return err
	}
	p := bundle.Package{Name: info.Name, Version: info.Version, Platforms: a.Index.Platforms}
	for i, f := range all {
		if f.Path != files[i].Path {
			p.Files = append(p.Files, f)
		}
	}
	return atomicfile.Fill(name, 0o644, func(w *os.File) error {
		_, err := bundle.WritePackage(ctx, w, p, bundle.WriteOptions{Plain: true})
		return err
	})
}
