package upload

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/console/jsonfile"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/plaintext"
)

// Options configure a Spool.
type Options struct {
	Spool   string // folder of uploads: ID.json and, until an upload is ready, ID.part
	Bundles string // folder of the bundles that are ready; on the same file system
	// Check judges a complete file. Its error, and what it says, is the reason of a refusal.
	Check func(ctx context.Context, file string) (Verdict, error)
	// Space returns the free bytes of the file system of a folder.
	Space func(folder string) (uint64, error)
	// Ended is called for uploads that became ready or were refused.
	Ended func(Upload)
	Now   func() time.Time
	Log   *slog.Logger
}

// Spool is the uploads of one console. Its methods may be called from several goroutines.
type Spool struct {
	Options
	context context.Context // of checks

	mu     sync.Mutex
	all    map[string]*Upload
	locked map[string]bool // by ID: a chunk is being written
}

const (
	recordEnd = ".json"
	partEnd   = ".part"
)

// Open reads the uploads that a folder has, and goes on with their checks. Checks end with ctx.
func Open(ctx context.Context, o Options) (*Spool, error) {
	s := &Spool{Options: o, context: ctx, all: make(map[string]*Upload), locked: make(map[string]bool)}
	for _, folder := range []string{o.Spool, o.Bundles} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(o.Spool)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if id, isRecord := strings.CutSuffix(e.Name(), recordEnd); isRecord && !strings.HasPrefix(id, ".") {
			if err := s.load(id); err != nil {
				return nil, err
			}
		}
	}
	for _, e := range entries { // of a record that was never written
		if id, isPart := strings.CutSuffix(e.Name(), partEnd); isPart && s.all[id] == nil {
			if err := atomicfile.Remove(s.part(id)); err != nil {
				return nil, err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.all {
		if u.State == Checking {
			go s.check(*u)
		}
	}
	return s, s.sweep()
}

// load reads one upload. A damaged record is removed with its bytes: nothing says what they are.
func (s *Spool) load(id string) error {
	var u Upload
	err := jsonfile.Read(s.record(id), &u)
	if err != nil && !errors.Is(err, jsonfile.ErrDamaged) {
		return err
	}
	if err != nil || u.ID != id || !IsBundle(u.Name) {
		s.Log.Warn("removing a damaged record of an upload", "file", s.record(id), "error", err)
		return errors.Join(atomicfile.Remove(s.record(id)), atomicfile.Remove(s.part(id)))
	}
	if u.State == Ready {
		if err := os.Rename(s.part(id), s.bundle(u.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := os.Stat(s.bundle(u.Name)); errors.Is(err, fs.ErrNotExist) {
			return atomicfile.Remove(s.record(id))
		}
	}
	if u.State == Receiving { // bytes of a chunk that did not end
		if err := os.Truncate(s.part(id), u.Offset); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.all[id] = &u
	return nil
}

func (s *Spool) record(id string) string   { return filepath.Join(s.Spool, id+recordEnd) }
func (s *Spool) part(id string) string     { return filepath.Join(s.Spool, id+partEnd) }
func (s *Spool) bundle(name string) string { return filepath.Join(s.Bundles, name) }

// save writes the record of an upload. The caller holds the lock.
func (s *Spool) save(u *Upload) error { return jsonfile.Write(s.record(u.ID), u) }

// sweep removes uploads that have expired. The caller holds the lock.
func (s *Spool) sweep() error {
	for _, u := range s.all {
		if u.expired(s.Now()) && !s.locked[u.ID] {
			if err := s.remove(u.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes an upload that is not ready. The caller holds the lock.
func (s *Spool) remove(id string) error {
	delete(s.all, id)
	return errors.Join(atomicfile.Remove(s.part(id)), atomicfile.Remove(s.record(id)))
}

// Create begins an upload, or returns the one that the same person has begun for a file of this name and length.
func (s *Spool) Create(r Request) (u Upload, resumes bool, err error) {
	if err := r.check(); err != nil {
		return u, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.sweep(); err != nil {
		return u, false, err
	}
	var open []string
	var promised int64
	for _, other := range s.all {
		switch {
		case other.State == Receiving && other.Who == r.Who && other.Name == r.Name && other.Length == r.Length && other.SHA256 == r.SHA256:
			return *other, true, nil
		case other.isOpen() && other.Name == r.Name:
			return u, false, fmt.Errorf("%s is sending a %s: %w", other.Who, r.Name, ErrBusy)
		case other.isOpen():
			open = append(open, fmt.Sprintf("%s by %s", other.Name, other.Who))
			promised += other.Length - other.Offset
		}
	}
	if _, err := os.Lstat(s.bundle(r.Name)); err == nil {
		return u, false, fmt.Errorf("this node has a %s: %w", r.Name, ErrExists)
	}
	if len(open) >= MaxOpen {
		slices.Sort(open)
		return u, false, fmt.Errorf("%d uploads are open, which is the limit (%s): %w", len(open), strings.Join(open, ", "), ErrBusy)
	}
	if err := s.checkSpace(promised + r.Length); err != nil {
		return u, false, err
	}
	now := s.Now().UTC()
	u = Upload{ID: strings.ToLower(rand.Text()), Name: r.Name, Length: r.Length, SHA256: r.SHA256, Who: r.Who, Began: now, Changed: now, State: Receiving}
	if err := s.save(&u); err != nil {
		return Upload{}, false, err
	}
	kept := u
	s.all[u.ID] = &kept
	return u, false, nil
}

// checkSpace refuses bytes that would leave too little space.
func (s *Spool) checkSpace(more int64) error {
	free, err := s.Space(s.Spool)
	if err != nil {
		return err
	}
	if free < minFree || free-minFree < uint64(more) {
		return fmt.Errorf("%w: %s are free in %s, the upload takes %s, and %s have to stay free for pods; free space on the node, or delete bundles", ErrSpace,
			plaintext.Bytes(free), s.Spool, plaintext.Bytes(more), plaintext.Bytes(uint64(minFree)))
	}
	return nil
}

// Find returns the upload of an ID. The error is ErrNone if there is none.
func (s *Spool) Find(id string) (Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.all[id]
	if u == nil || u.expired(s.Now()) {
		return Upload{}, ErrNone
	}
	return *u, nil
}

// List returns the uploads, the newest first.
func (s *Spool) List() []Upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Upload
	for _, u := range s.all {
		if !u.expired(s.Now()) {
			all = append(all, *u)
		}
	}
	slices.SortFunc(all, func(a, b Upload) int { return cmp.Or(b.Began.Compare(a.Began), strings.Compare(a.ID, b.ID)) })
	return all
}

// Cancel removes an upload that is not complete, or the notice that it was refused.
func (s *Spool) Cancel(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.all[id]
	switch {
	case u == nil:
		return ErrNone
	case s.locked[id]:
		return ErrInUse
	case u.State == Checking || u.State == Ready:
		return fmt.Errorf("%w: %s is complete; delete the bundle", ErrInvalid, u.Name)
	}
	return s.remove(id)
}

// Delete removes a bundle that is ready. The error is ErrNone if there is none.
func (s *Spool) Delete(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !IsBundle(name) {
		return ErrNone
	}
	if err := os.Remove(s.bundle(name)); errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	} else if err != nil {
		return err
	}
	for id, u := range s.all {
		if u.State == Ready && u.Name == name {
			return s.remove(id)
		}
	}
	return nil
}
