// Package delta makes the patches of a bundle that adds to an earlier one: programs and image layers of packages, as patches of
// those of the earlier versions.
//
// The package pairs each file with its earlier version, and decides whether a patch pays. Package patch makes it, and package bundle
// reads it.
package delta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/patch"
)

const (
	// form ends the names of patches in a spool. Another way to make them needs another name.
	form = ".patch-2"
	// smallest is the minimum size of a file to patch, in bytes.
	smallest = 64 << 10
	// largest limits the memory that making a patch takes: about the size of the earlier file, in bytes.
	largest = 512 << 20
	// pays is the part of the bytes of the whole file that a patch may have at most, in percent. A patch takes time on each node.
	pays = 90
)

// Earlier is the content that patches may apply to.
type Earlier struct {
	// Archives are the earlier bundle, or packages of the installed one. They are open.
	Archives []*bundle.Archive
	// Since says under which paths the reader of the patches has the files of Archives.
	Since *bundle.Since
	// Spool keeps patches. The first one of two versions takes half a minute for a program of 80 MB.
	Spool *Spool
}

// ErrBusy reports that a spool is making a patch, or looking for similar files, for somebody else.
var ErrBusy = errors.New("another patch is being made")

// Spool keeps patches in a folder, by the digests of both ends. It makes one at a time, because each takes a processor and a few hundred
// MiB of memory meanwhile. Looking for similar files reads all of a bundle, so that it also happens once at a time.
type Spool struct {
	dir    string
	making sync.Mutex

	mu      sync.Mutex
	members map[string]*shared // those of open sets, by sha256
}

// shared is a patch as a member of bundles. Sets share it, and the last one closes it.
type shared struct {
	*bundle.Member
	users int
}

// NewSpool returns a spool in a folder, which may be missing.
func NewSpool(dir string) *Spool { return &Spool{dir: dir, members: make(map[string]*shared)} }

// member renders a patch, unless an open set has it.
func (s *Spool) member(ctx context.Context, f bundle.File) (*bundle.Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.members[f.SHA256]
	if one == nil {
		made, err := bundle.Render(ctx, []bundle.File{f}, bundle.WriteOptions{Spool: s.dir, Plain: true})
		if err != nil {
			return nil, err
		}
		one = &shared{Member: made[0]}
		s.members[f.SHA256] = one
	}
	one.users++
	return one.Member, nil
}

// release closes a patch that no other set has.
func (s *Spool) release(m *bundle.Member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.members[m.SHA256()]
	if one.users--; one.users > 0 {
		return nil
	}
	delete(s.members, m.SHA256())
	return m.Close()
}

// Set is the patches of a bundle. Close it after the last read of the bundle.
type Set struct {
	// Members are the patches, as files at the root of the bundle.
	Members []*bundle.Member
	// Entries are the patched files, for bundle.Bundle.Patched.
	Entries map[string]bundle.Entry

	spool *Spool
}

// Close releases the patches.
func (s *Set) Close() error {
	var errs []error
	for _, m := range s.Members {
		errs = append(errs, s.spool.release(m))
	}
	s.Members = nil
	return errors.Join(errs...)
}

// Make makes the patches of the packages of a bundle. lean are their lean layers, as bundle.Bundle has them. If the spool lacks a patch and
// is busy, the error is ErrBusy.
func (e Earlier) Make(ctx context.Context, packages, lean []*bundle.Archive) (*Set, error) {
	m := newMaker(e.Spool)
	m.Earlier = e
	for n, a := range packages {
		one := target{archive: a, info: a.Index.Packages[0]}
		if n < len(lean) {
			one.lean = lean[n]
		}
		if err := m.patchPackage(ctx, one); err != nil {
			return nil, fmt.Errorf("patches of %s %s: %w", one.info.Name, one.info.Version, err)
		}
	}
	return m.finish(ctx)
}

// target is a package of the new bundle.
type target struct {
	archive *bundle.Archive
	lean    *bundle.Archive // nil, or lean forms of its layers
	info    bundle.PackageInfo
}

type maker struct {
	Earlier
	spool *Spool
	set   *Set
	files []bundle.File   // the patches
	taken map[string]bool // paths of files in it
}

func newMaker(s *Spool) *maker {
	return &maker{spool: s, set: &Set{Entries: make(map[string]bundle.Entry), spool: s}, taken: make(map[string]bool)}
}

func (m *maker) patchPackage(ctx context.Context, t target) error {
	from, info := m.earlierPackage(t.info)
	if from == nil {
		return nil
	}
	for _, e := range t.archive.Index.Entries {
		below := strings.TrimPrefix(e.Path, t.info.Dir()+"/")
		if e.Encoding != bundle.Deflate || e.Size < smallest || strings.HasPrefix(below, "images/") { // what is compressed has no bytes in common
			continue
		}
		if _, had := m.Since.Has(e); had {
			continue
		}
		base, ok := from.Entry(path.Join(info.Dir(), below))
		if !ok {
			continue
		}
		old, now := file(from, base), file(t.archive, e)
		if err := m.patch(ctx, old, now, e.Path, e.Length); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	return m.patchLayers(ctx, t, from, info)
}

// earlierPackage finds the package whose files those of a new one replace: of the same version, or else the first of its name, which the
// cluster runs.
func (m *maker) earlierPackage(p bundle.PackageInfo) (from *bundle.Archive, info bundle.PackageInfo) {
	for _, a := range m.Archives {
		for _, old := range a.Index.Packages {
			if old.Name == p.Name && (from == nil || old.Version == p.Version) {
				from, info = a, old
			}
		}
	}
	return from, info
}

// patch makes a file of the new bundle from an earlier one, if that takes fewer bytes than carrying it. name is the path of the file in its
// package, and carried its bytes there.
func (m *maker) patch(ctx context.Context, old, now content, name string, carried int64) error {
	at, packed := m.Since.Has(old.entry)
	ok := packed
	if !packed && old.layer != "" { // an earlier patch made the layer
		at, ok = m.Since.Has(bundle.Entry{SHA256: old.plain.SHA256})
	}
	if !ok || old.entry.NeedsBase() || max(old.plain.Size, now.plain.Size, old.entry.Size) > largest {
		return nil
	}
	made, err := m.spooled(ctx, old, now)
	if errors.Is(err, errTooLarge) {
		return nil
	}
	if err != nil || made.Size*100 > carried*pays {
		return err
	}
	base := made.From
	if packed {
		base = bundle.Blob{SHA256: old.entry.SHA256, Size: old.entry.Size}
	}
	m.add(made, now, name, at, bundle.Patch{Base: base})
	return nil
}

// add adds a patched file to the set. name is the path of the file in its package, and at the path of its base.
func (m *maker) add(made spooled, now content, name, at string, p bundle.Patch) {
	p.Path, p.From, p.Memory = path.Join(bundle.PatchDir, made.SHA256), made.From, patch.Memory
	e := bundle.Entry{
		Path: now.entry.Path, Mode: now.entry.Mode, Size: made.Result.Size, SHA256: made.Result.SHA256, Encoding: bundle.Patched, Link: at, Patch: &p,
	}
	if now.layer != "" {
		e.Path = path.Join(path.Dir(e.Path), e.SHA256)
		e.Layer = &bundle.Layer{Blob: now.layer, DiffID: e.SHA256, Size: e.Size}
		if m.taken[e.Path] { // another layer unpacks to the same
			return
		}
		m.taken[e.Path] = true
	}
	if !m.taken[p.Path] {
		m.taken[p.Path] = true
		m.files = append(m.files, bundle.File{Path: p.Path, Mode: 0o644, Size: made.Size, SHA256: made.SHA256, Checked: true, Open: func() (io.ReadCloser, error) { return os.Open(made.name) }})
	}
	m.set.Entries[name] = e
}

// finish renders the patches.
func (m *maker) finish(ctx context.Context) (*Set, error) {
	for _, f := range m.files {
		one, err := m.spool.member(ctx, f)
		if err != nil {
			return nil, errors.Join(err, m.set.Close())
		}
		m.set.Members = append(m.set.Members, one)
	}
	return m.set, nil
}

// spoolName returns the file of the patch between two contents.
func (m *maker) spoolName(old, now content) string {
	return filepath.Join(m.spool.dir, old.plain.SHA256+"-"+now.plain.SHA256+form)
}
