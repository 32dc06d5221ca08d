package bundle

import (
	"errors"
	"fmt"
)

// Since holds the content of an earlier bundle, which a later bundle can leave out.
type Since struct {
	digest string            // of the index
	paths  map[string]string // paths of its files by sha256
}

// NewSince reads the index of a bundle, as an archive or Layout.IndexData has it. Files that this bundle itself leaves out
// do not count, so that an install never needs more than two bundles.
func NewSince(index []byte) (*Since, error) {
	x, err := parseIndex(index)
	if err != nil {
		return nil, err
	}
	if x.Kind != KindBundle {
		return nil, errors.New("is a package; a bundle can only be an addition to a bundle")
	}
	s := &Since{digest: sha256Hex(index), paths: make(map[string]string, len(x.Entries))}
	for _, e := range x.Entries {
		if e.Encoding != InBase {
			s.paths[e.SHA256] = e.Path
		}
	}
	return s, nil
}

// Since returns the content of this bundle.
func (a *Archive) Since() (*Since, error) { return NewSince(a.index) }

// has returns the path under which the earlier bundle has the content of an entry.
func (s *Since) has(e Entry) (string, bool) {
	if s == nil {
		return "", false
	}
	at, ok := s.paths[e.SHA256]
	return at, ok
}

// ErrNoBase says that a bundle adds to an earlier one, which was not given.
var ErrNoBase = errors.New("the bundle leaves out files of an earlier bundle")

// WithBase sets the earlier archive that has the files left out here. It compares the indexes; Verify reads the bytes.
// Close closes the base too.
func (a *Archive) WithBase(base *Archive) error {
	if a.Index.Base == "" {
		return errors.New("the bundle is complete and needs no other")
	}
	if base.Digest != a.Index.Base {
		return fmt.Errorf("the bundle is an addition to the one whose index is %s, and this is %s", a.Index.Base, base.Digest)
	}
	for _, e := range a.Index.Entries {
		if e.Encoding != InBase {
			continue
		}
		if had, ok := base.entries[e.Link]; !ok || had.SHA256 != e.SHA256 || had.Size != e.Size || had.Encoding == InBase {
			return fmt.Errorf("%s: the earlier bundle does not have it as %s; assemble the bundle again", e.Path, e.Link)
		}
	}
	a.base = base
	return nil
}

// CheckBase returns an error that wraps ErrNoBase if the archive leaves out files and WithBase was not called.
func (a *Archive) CheckBase() error {
	if a.Index.Base != "" && a.base == nil {
		return fmt.Errorf("%w: also give the bundle whose index is %s", ErrNoBase, a.Index.Base)
	}
	return nil
}

// inBase returns the archive with the content of an entry, and the entry's path there.
func (a *Archive) inBase(e Entry) (*Archive, string, error) {
	if err := a.CheckBase(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", e.Path, err)
	}
	return a.base, e.Link, nil
}
