package hostpkg

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/manifest"
)

// Error reports that packages of one target could not be resolved.
type Error struct {
	Target string
	// Names maps each package that cannot be resolved even alone to the solver's message. When it is empty the trouble is with the
	// packages together, or with the archive.
	Names map[string]string
	Err   error
}

func (e *Error) Error() string {
	var faults []string
	for name, message := range e.Names {
		faults = append(faults, fmt.Sprintf("%s: %s", name, message))
	}
	slices.Sort(faults)
	if len(faults) == 0 {
		return fmt.Sprintf("packages for %s: %v", e.Target, e.Err)
	}
	return fmt.Sprintf("packages for %s: %s", e.Target, strings.Join(faults, "; "))
}

func (e *Error) Unwrap() error { return e.Err }

// Resolve finds every package file that a minimal host of the target lacks when it is to have the named packages, all of
// them in one transaction, in order of their names. Failures are *Error.
func (s *Source) Resolve(ctx context.Context, target Target, arch string, names []string) ([]Resolved, error) {
	resolved, err := s.resolve(ctx, target, arch, names)
	if err == nil {
		err = s.rememberVouched(target, arch, resolved)
	}
	if err == nil {
		return resolved, nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return nil, err
	}
	return nil, &Error{Target: target.Name, Err: err}
}

func (s *Source) resolve(ctx context.Context, target Target, arch string, names []string) ([]Resolved, error) {
	invalid := make(map[string]string)
	for _, name := range names {
		if err := target.checkName(name); err != nil {
			invalid[name] = err.Error()
		}
	}
	if len(invalid) > 0 {
		return nil, &Error{Target: target.Name, Names: invalid}
	}
	solver, release, err := s.solvers.get(ctx, s.options, target, arch, solver.ready)
	if err != nil {
		return nil, err
	}
	defer release()
	resolved, err := solver.solve(ctx, slices.Compact(slices.Sorted(slices.Values(names))))
	slices.SortFunc(resolved, Compare)
	return resolved, err
}

// solver resolves for one target and architecture, in a private directory. One goroutine uses it at a time.
type solver interface {
	// directory is locked before ready and solve are called.
	directory() string
	// ready refreshes the metadata of the repositories, once per run.
	ready(ctx context.Context) error
	// readyForLocked is ready for package lists only: the indexes may be past their Valid-Until.
	readyForLocked(ctx context.Context) error
	// solve finds the files that a minimal host needs to have the packages, in any order. Names are valid, sorted and
	// differ. When names are to blame the error is an *Error.
	solve(ctx context.Context, names []string) ([]Resolved, error)
	// lists refuses packages that are missing from the signed indexes of the target.
	lists(ctx context.Context, packages []Resolved) error
}

func newSolver(o Options, target Target, arch string) (solver, error) {
	if err := target.Check(); err != nil {
		return nil, err
	}
	target, err := target.forArchitecture(arch)
	if err != nil {
		return nil, err
	}
	if target.Manager == manifest.ManagerYum {
		return newDNFSolver(o, target, arch)
	}
	return newAptSolver(o, target, arch)
}

// solvers keeps a solver for each target and architecture, so that several add-ons built in one run ask the archive for
// news only once.
type solvers struct{ open fetch.Opened[solver] }

// get returns a solver for the caller's exclusive use until release is called. It is made ready by ready.
func (s *solvers) get(ctx context.Context, o Options, target Target, arch string, ready func(solver, context.Context) error) (found solver, release func(), err error) {
	kept, free, err := s.open.Get(ctx, target.Name+" "+arch)
	if err != nil {
		return nil, nil, err
	}
	if *kept == nil {
		*kept, err = newSolver(o, target, arch)
	}
	var unlock func()
	if err == nil {
		unlock, err = filelock.WaitFile(ctx, filepath.Join((*kept).directory(), "lock"))
	}
	if err == nil {
		if err = ready(*kept, ctx); err != nil {
			unlock()
		}
	}
	if err != nil {
		free()
		return nil, nil, err
	}
	return *kept, func() { unlock(); free() }, nil
}
