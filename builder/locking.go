package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// LockMode selects what Lock does with an existing lock.
type LockMode int

// The modes.
const (
	LockMissing LockMode = iota // keep locked names, add missing ones
	LockUpdate                  // resolve everything again
	LockCheck                   // change nothing, and report what LockUpdate would change
)

// Locked describes an add-on that was locked or checked.
type Locked struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Path     string            `json:"path"` // of the lock
	Written  bool              `json:"written"`
	Changes  []manifest.Change `json:"changes"`
	Warnings []diag.Finding    `json:"warnings,omitempty"`
}

// Lock resolves the Manifest of the add-on in dir, and writes the result to the Manifest.lock beside it. Locks of targets and
// platforms other than the builder's are kept, unless the Manifest no longer needs them. Mistakes in the Manifest and failed
// requests are one diag.Errors with every fault.
func (b *Builder) Lock(ctx context.Context, dir string, mode LockMode) (Locked, error) {
	a, err := openAddOn(dir)
	if err != nil {
		return Locked{}, err
	}
	defer a.close()
	was, err := a.lock()
	var unreadable diag.Errors
	if mode == LockUpdate && errors.As(err, &unreadable) {
		was, err = lock.Lock{}, nil
	}
	if err != nil {
		return Locked{}, err
	}
	result := Locked{Name: a.name, Version: a.version, Path: filepath.Join(dir, lock.FileName), Warnings: b.warnings(a.manifest)}
	var p kind.Pins
	if mode == LockMissing {
		p.Lock = was
	}
	b.log.Info("resolving", "add-on", a.name, "version", a.version)
	r, err := b.kinds.Resolve(ctx, a.directives(), p)
	if err != nil {
		return Locked{}, err
	}
	result.Warnings = append(result.Warnings, r.Warnings(a.manifest)...)
	now := r.Lock()
	b.kinds.Keep(a.directives(), &now, was)
	if result.Changes = lock.Diff(was, now); result.Changes == nil {
		result.Changes = []manifest.Change{}
	}
	if mode != LockCheck {
		result.Written, err = now.Save(result.Path)
	}
	return result, err
}

// lock reads the add-on's lock. A missing one locks nothing.
func (a *addOn) lock() (lock.Lock, error) {
	f, err := a.open(lock.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return lock.Lock{}, nil
	}
	if err != nil {
		return lock.Lock{}, fmt.Errorf("read the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	l, err := lock.Parse(filepath.Join(a.named, lock.FileName), f)
	if err != nil {
		return lock.Lock{}, fmt.Errorf("%w\nlock the add-on again with sealift lock --update %s", err, a.named)
	}
	return l, nil
}
