package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/sealift/sealift/internal/sha256hex"
)

// Since holds the content of an earlier bundle, which a later bundle can leave out.
type Since struct {
	digest   string            // of the index
	paths    map[string]string // paths of its files by sha256
	sizes    map[string]int64  // in bytes by sha256, without lean layers
	packages []PackageInfo
	lean     bool
}

// NewSince reads the index of a bundle, as an archive or Layout.IndexData has it. Files that this bundle itself leaves out
// do not count, so that an install never needs more than two bundles.
func NewSince(index []byte) (*Since, error) {
	x, err := parseIndex(index)
	if err != nil {
		return nil, err
	}
	if x.Kind != KindBundle {
		return nil, errors.New("is a package; a bundle can only extend a bundle")
	}
	s := &Since{digest: sha256hex.Of(index), paths: make(map[string]string, len(x.Entries)), sizes: map[string]int64{}, packages: x.Packages}
	for _, e := range x.Entries {
		if e.NeedsBase() {
			continue
		}
		if s.paths[e.SHA256] = e.Path; e.Layer != nil {
			s.lean = true
		} else {
			s.sizes[e.SHA256] = e.Size
		}
	}
	return s, nil
}

// InstalledPackage is a package of an installed bundle.
type InstalledPackage struct {
	*Archive
	// Lean are the layers that are installed in their lean form, or as the tar that a patch made, see Index.LeanLayers.
	Lean map[string]string
}

// SinceInstalled returns the content of an installed bundle, by the digest of its index, as far as packages have it.
func SinceInstalled(digest string, packages []InstalledPackage) *Since {
	s := &Since{digest: digest, paths: map[string]string{}, sizes: map[string]int64{}}
	for _, p := range packages {
		for _, e := range p.Index.Entries {
			named := e.SHA256 // by the manifest
			if e.Layer != nil {
				named = e.Layer.Blob
			}
			if lean, ok := p.Lean[named]; ok {
				s.paths[lean], s.lean = path.Join(path.Dir(e.Path), lean), true
				continue
			}
			if e.Layer == nil { // otherwise the cluster has the layer as the manifest names it, and the package does not say its size
				s.paths[e.SHA256], s.sizes[e.SHA256] = e.Path, e.Size
			}
		}
	}
	return s
}

// Packages returns the packages of the earlier bundle, if its index was read.
func (s *Since) Packages() []PackageInfo { return s.packages }

// Lean reports whether the earlier bundle has layers in their lean form, or as patches made them. A bundle without lean layers carries these again.
func (s *Since) Lean() bool { return s != nil && s.lean }

// Since returns the content of this bundle.
func (a *Archive) Since() (*Since, error) { return NewSince(a.index) }

// Has returns the path under which the earlier bundle has the content of an entry.
func (s *Since) Has(e Entry) (string, bool) {
	if s == nil {
		return "", false
	}
	at, ok := s.paths[e.SHA256]
	return at, ok
}

// Left returns the entry with which a later bundle leaves out a file, if the earlier one has it: as the package has it, in the lean form, as
// the tar of a layer that a patch made, or as the manifest names the layer. lean is nil for a file that the later bundle has in one form.
func (s *Since) Left(e Entry, lean *Entry) (Entry, bool) {
	forms := []Entry{e}
	if lean != nil {
		forms = append(forms, *lean)
	}
	if l := forms[len(forms)-1].Layer; l != nil {
		forms = append(forms, Entry{Path: path.Join(path.Dir(e.Path), l.DiffID), Mode: e.Mode, Size: l.Size, SHA256: l.DiffID, Layer: &Layer{Blob: l.Blob, DiffID: l.DiffID, Size: l.Size}})
	}
	if l := e.Layer; l != nil && s != nil {
		if size, plain := s.sizes[l.Blob]; plain {
			forms = append(forms, Entry{Path: path.Join(path.Dir(e.Path), l.Blob), Mode: e.Mode, Size: size, SHA256: l.Blob})
		}
	}
	for _, f := range forms {
		if at, ok := s.Has(f); ok {
			return Entry{Path: f.Path, Mode: f.Mode, Size: f.Size, SHA256: f.SHA256, Encoding: InBase, Link: at, Layer: f.Layer}, true
		}
	}
	return Entry{}, false
}

// LeftMember is Left for a file at the root. Only sealift-preflight is left out: the bundle starts without the earlier one, and control planes
// keep that program for all platforms.
func (s *Since) LeftMember(e Entry) (Entry, bool) {
	if !IsProgram(PreflightName, e.Path) {
		return Entry{}, false
	}
	return s.Left(e, nil)
}

// ErrNoBase reports that a bundle adds to an earlier one, which was not given.
var ErrNoBase = errors.New("the bundle omits files of an earlier bundle")

// WithBase sets the earlier archive that has the files left out here. It compares the indexes; Verify reads the bytes.
// Close closes the base too.
func (a *Archive) WithBase(base *Archive) error {
	if a.Index.Base == "" {
		return errors.New("the bundle is complete and needs no other")
	}
	if base.Digest != a.Index.Base {
		return fmt.Errorf("the bundle extends the one whose index is %s, but this is %s", a.Index.Base, base.Digest)
	}
	for _, e := range a.Index.Entries {
		if !e.NeedsBase() {
			continue
		}
		if had, want := base.entries[e.Link], e.needs(); had.SHA256 != want.SHA256 || had.Size != want.Size || had.NeedsBase() {
			return fmt.Errorf("%s: the earlier bundle does not have sha256 %s as %s; assemble the bundle again", e.Path, want.SHA256, e.Link)
		}
	}
	a.base = base
	return nil
}

// CheckBase returns an error that wraps ErrNoBase if the archive leaves out files and WithBase was not called.
func (a *Archive) CheckBase() error {
	if a.partial && a.Index.Base != "" && a.base == nil {
		return fmt.Errorf("%w: also name the bundle whose index is %s, with --base", ErrNoBase, a.Index.Base)
	}
	return nil
}

// Installed is a node on which a bundle is installed.
type Installed interface {
	// Open opens the content of an entry of that bundle. It returns an error that wraps fs.ErrNotExist if the node no longer has
	// it.
	Open(Entry) (io.ReadCloser, error)
	io.Closer
}

// WithInstalled sets a node as the source of the files left out here, if it has all of them. Which bundle is installed there does
// not matter: each content is found by its digest, and verified while it is read. Close closes the node too.
func (a *Archive) WithInstalled(node Installed) error {
	if a.Index.Base == "" {
		return errors.New("the bundle is complete and needs no other")
	}
	base := &Archive{Digest: a.Index.Base, entries: map[string]Entry{}, closer: node, unpacked: node.Open}
	var lacking []string
	for _, e := range a.Index.Entries {
		if !e.NeedsBase() {
			continue
		}
		had := e.needs()
		content, err := node.Open(had)
		if errors.Is(err, fs.ErrNotExist) {
			lacking = append(lacking, e.Path)
			continue
		}
		if err == nil {
			err = content.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Link, err)
		}
		base.entries[e.Link] = had
	}
	if len(lacking) > 0 {
		return fmt.Errorf("%w: this node lacks %d of them, such as %s; also name the bundle whose index is %s with --base, or assemble a bundle without a record", ErrNoBase, len(lacking), lacking[0], a.Index.Base)
	}
	a.base = base
	return nil
}

// needs returns the entry of the base that an absent entry is, or is made of.
func (e *Entry) needs() Entry {
	had := Entry{Path: e.Link, Mode: e.Mode, Size: e.Size, SHA256: e.SHA256, Layer: e.Layer}
	if e.Encoding == Patched {
		had.Size, had.SHA256, had.Layer = e.Patch.Base.Size, e.Patch.Base.SHA256, nil
	}
	return had
}

// leavesOut reports whether the content of an entry is in the base, or is made by a patch.
func (a *Archive) leavesOut(e Entry) bool { return a.partial && e.absent() }

// elsewhere returns the archive with the content of an entry that this one leaves out, and the entry's path there.
func (a *Archive) elsewhere(e Entry) (*Archive, string, error) {
	if e.NeedsBase() {
		if err := a.CheckBase(); err != nil {
			return nil, "", fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	if e.Encoding == Patched {
		return a.result(e)
	}
	return a.base, e.Link, nil
}

// UnpackedIndex returns the index of the folder that has all files of this bundle unpacked, including those that it leaves out. With
// that index in the file IndexName, the folder opens as a complete bundle without a signature.
func (a *Archive) UnpackedIndex() ([]byte, error) {
	x := a.Index
	x.Base, x.Entries = "", slices.Clone(x.Entries)
	var offset int64
	for i := range x.Entries {
		e := &x.Entries[i]
		if e.absent() {
			*e = Entry{Path: e.Path, Mode: e.Mode, Size: e.Size, SHA256: e.SHA256, Encoding: Stored, Layer: e.Layer}
			header, err := tarHeader(*e)
			if err != nil {
				return nil, err
			}
			e.Header = int64(len(header))
			e.Length = storedLength(e.Header, e.Size)
		}
		e.Offset = offset
		offset += e.Length
	}
	if err := x.validate(); err != nil {
		return nil, err
	}
	return x.marshal()
}
