package bundle

import (
	"errors"
	"fmt"
)

// Since is what an earlier bundle has: a later one can leave it out.
type Since struct {
	digest string            // of the index
	paths  map[string]string // of the files whose bytes it has, by their sha256
}

// NewSince reads the index of a bundle, as an archive or Layout.IndexData gives it. What that bundle itself leaves out
// counts as missing, so that no one ever needs more than two bundles.
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

// Since is what this bundle has.
func (a *Archive) Since() (*Since, error) { return NewSince(a.index) }

// has tells under which path the content of an entry is there.
func (s *Since) has(e Entry) (string, bool) {
	if s == nil {
		return "", false
	}
	at, ok := s.paths[e.SHA256]
	return at, ok
}

// ErrNoBase says that a bundle is an addition to another one, which is not at hand.
var ErrNoBase = errors.New("the bundle leaves out what an earlier one has")

// WithBase gives an archive the earlier one that has what it leaves out. Whether that has the bytes, Verify finds out.
// The base is closed with the archive.
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

// CheckBase is an error that wraps ErrNoBase when the archive leaves out files and WithBase was not called.
func (a *Archive) CheckBase() error {
	if a.Index.Base != "" && a.base == nil {
		return fmt.Errorf("%w: give the one whose index is %s, too", ErrNoBase, a.Index.Base)
	}
	return nil
}

// inBase gives the archive that has an entry, and the path that it has there.
func (a *Archive) inBase(e Entry) (*Archive, string, error) {
	if err := a.CheckBase(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", e.Path, err)
	}
	return a.base, e.Link, nil
}
