package hostpkg

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Error says that packages of one target could not be resolved.
type Error struct {
	Target string
	// Names maps each package that cannot be had even alone to what apt said of it. When it is empty the trouble is with
	// the packages together, or with the archive.
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
		return resolved, nil
	}
	var typed *Error
	if errors.As(err, &typed) {
		return nil, err
	}
	return nil, &Error{Target: target.Name, Err: err}
}

func (s *Source) resolve(ctx context.Context, target Target, arch string, names []string) ([]Resolved, error) {
	invalid := make(map[string]string)
	for _, name := range names {
		if !validName(name) {
			invalid[name] = "not the name of a Debian package"
		}
	}
	if len(invalid) > 0 {
		return nil, &Error{Target: target.Name, Names: invalid}
	}
	solver, release, err := s.solvers.get(ctx, s.options, target, arch)
	if err != nil {
		return nil, err
	}
	defer release()
	return solver.solve(ctx, slices.Compact(slices.Sorted(slices.Values(names))))
}

// solvers keeps a solver for each target and architecture, so that several add-ons built in one run ask the archive for
// news only once.
type solvers struct {
	mu   sync.Mutex
	open map[string]*opening
}

type opening struct {
	token  chan struct{} // a mutex that a waiter can give up on
	solver *solver
}

// get returns a solver for the caller's use alone until release is called.
func (s *solvers) get(ctx context.Context, o Options, target Target, arch string) (found *solver, release func(), err error) {
	key := target.Name + " " + arch
	s.mu.Lock()
	if s.open == nil {
		s.open = make(map[string]*opening)
	}
	entry := s.open[key]
	if entry == nil {
		entry = &opening{token: make(chan struct{}, 1)}
		s.open[key] = entry
	}
	s.mu.Unlock()
	select {
	case entry.token <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if entry.solver == nil {
		entry.solver, err = newSolver(o, target, arch)
	}
	var unlock func()
	if err == nil {
		unlock, err = lock(ctx, filepath.Join(entry.solver.apt.dir, "lock"))
	}
	if err == nil {
		if err = entry.solver.ready(ctx); err != nil {
			unlock()
		}
	}
	if err != nil {
		<-entry.token
		return nil, nil, err
	}
	return entry.solver, func() { unlock(); <-entry.token }, nil
}

// solver answers for one target and architecture.
type solver struct {
	target Target
	arch   string
	apt    apt
	// upstream maps the URL of each archive as it is asked back to the one that the target names.
	upstream map[string]string
	sources  string
	updated  bool   // the indexes were brought up to date in this run
	status   string // the package database of a minimal host, made from the indexes
}

func newSolver(o Options, target Target, arch string) (*solver, error) {
	if err := target.Check(); err != nil {
		return nil, err
	}
	get, err := find("apt-get", o.AptGet)
	if err != nil {
		return nil, err
	}
	cacheBin, err := find("apt-cache", o.AptCache)
	if err != nil {
		return nil, err
	}
	s := &solver{target: target, arch: arch, upstream: make(map[string]string), sources: sourcesFile(target.Sources, o.Mirrors.URL)}
	for _, archive := range target.Sources {
		if _, err := os.Stat(archive.SignedBy); err != nil {
			return nil, fmt.Errorf("keyring of %s: %w; install debian-archive-keyring, or name another with signedBy in sealift.yaml", archive.URL, err)
		}
		s.upstream[o.Mirrors.URL(archive.base())] = archive.base()
	}
	sum := sha256.Sum256([]byte(s.sources))
	dir, err := o.Cache.Sub("apt", fmt.Sprintf("%s-%s-%s", target.Name, arch, hex.EncodeToString(sum[:6])))
	if err != nil {
		return nil, err
	}
	s.apt = apt{dir: dir, get: get, cacheBin: cacheBin}
	return s, nil
}

// ready brings the archive's indexes up to date, once per run, and makes sure of the database of a minimal host, which
// another process may have made anew in the meantime.
func (s *solver) ready(ctx context.Context) error {
	if !s.updated {
		if err := s.update(ctx); err != nil {
			return err
		}
		s.updated = true
	}
	status, err := s.base(ctx)
	if err != nil {
		return fmt.Errorf("find out what a minimal host has: %w", err)
	}
	s.status = status
	return nil
}

func (s *solver) update(ctx context.Context) error {
	if err := s.apt.prepare(s.arch, s.sources); err != nil {
		return fmt.Errorf("prepare a directory for apt: %w", err)
	}
	// apt asks with If-Modified-Since, so lists that are current cost one request each.
	if err := s.apt.run(ctx, s.apt.get, drain, "update", "-q"); err != nil {
		return fmt.Errorf("read the archive's indexes: %w; check the network, the mirrors in sealift.yaml and the keyrings", err)
	}
	return nil
}

func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func (s *solver) solve(ctx context.Context, names []string) ([]Resolved, error) {
	if err := s.known(ctx, names); err != nil {
		return nil, err
	}
	resolved, err := s.install(ctx, s.status, names)
	var refused *toolError
	if !errors.As(err, &refused) {
		return resolved, err
	}
	// Which of them is to blame? apt stops at the first.
	alone := make(map[string]string)
	for _, name := range names {
		_, err := s.install(ctx, s.status, []string{name})
		var one *toolError
		if errors.As(err, &one) {
			alone[name] = strings.Join(one.messages, "; ")
		} else if err != nil {
			return nil, err
		}
	}
	return nil, &Error{Target: s.target.Name, Names: alone, Err: err}
}

// known refuses names that are no package but that apt-get would take for a pattern or for a command, as it does with
// names in which it finds a dot or a plus.
func (s *solver) known(ctx context.Context, names []string) error {
	unknown := make(map[string]string)
	for _, name := range names {
		if !strings.ContainsAny(name, ".+") {
			continue
		}
		found := false
		err := s.apt.run(ctx, s.apt.cacheBin, func(r io.Reader) error {
			lines := bufio.NewScanner(r)
			for lines.Scan() {
				found = found || lines.Text() == name
			}
			return lines.Err()
		}, "pkgnames", name)
		if err != nil {
			return err
		}
		if !found {
			unknown[name] = "Unable to locate package " + name
		}
	}
	if len(unknown) > 0 {
		return &Error{Target: s.target.Name, Names: unknown}
	}
	return nil
}

// install asks apt-get which files it would fetch to install names on a host with the given database.
func (s *solver) install(ctx context.Context, status string, names []string) ([]Resolved, error) {
	var resolved []Resolved
	args := []string{"install", "-o", "Dir::State::status=" + status, "--print-uris", "-y", "-qq", "--no-install-recommends", "--no-remove"}
	err := s.apt.run(ctx, s.apt.get, func(r io.Reader) (err error) {
		resolved, err = parseURIs(r)
		return err
	}, append(args, names...)...)
	if err != nil {
		return nil, err
	}
	for i := range resolved {
		r := &resolved[i]
		r.Target = s.target.Name
		for asked, upstream := range s.upstream {
			if rest, ok := strings.CutPrefix(r.URL, asked); ok {
				r.URL = upstream + rest
				break
			}
		}
	}
	slices.SortFunc(resolved, Compare)
	return resolved, nil
}

// parseURIs reads what apt-get --print-uris prints, one file to a line: a quoted URL, the name under which apt would keep
// it, its size and its hash. The name is <package>_<version>_<architecture>.deb with percent-escapes.
func parseURIs(r io.Reader) ([]Resolved, error) {
	var resolved []Resolved
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "'") {
			continue
		}
		one, err := parseURI(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("apt-get --print-uris: line %q: %w", lines.Text(), err)
		}
		resolved = append(resolved, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("apt-get --print-uris: %w", err)
	}
	return resolved, nil
}

func parseURI(line string) (Resolved, error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return Resolved{}, fmt.Errorf("%d words, want 4", len(fields))
	}
	address, ok := strings.CutPrefix(fields[0], "'")
	address, ok2 := strings.CutSuffix(address, "'")
	if !ok || !ok2 || address == "" {
		return Resolved{}, errors.New("no quoted URL")
	}
	name, err := url.PathUnescape(fields[1])
	if err != nil {
		return Resolved{}, err
	}
	parts := strings.Split(strings.TrimSuffix(name, ".deb"), "_")
	if len(parts) != 3 || !strings.HasSuffix(name, ".deb") || strings.ContainsAny(name, "/\\ \t\r\n\x00") || !validName(parts[0]) {
		return Resolved{}, fmt.Errorf("%q is not the name of a package file", name)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size <= 0 {
		return Resolved{}, fmt.Errorf("size %q", fields[2])
	}
	hash, ok := strings.CutPrefix(fields[3], "SHA256:")
	if raw, err := hex.DecodeString(hash); !ok || err != nil || len(raw) != sha256.Size {
		return Resolved{}, fmt.Errorf("no sha256, the archive gives only %q", fields[3])
	}
	return Resolved{Name: parts[0], Version: parts[1], Arch: parts[2], URL: address, SHA256: strings.ToLower(hash), Size: size}, nil
}
