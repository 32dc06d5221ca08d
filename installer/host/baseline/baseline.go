// Package baseline records the state of a host before it was changed, and the changes of each install step, so that all of them
// can be reverted.
//
// It compares states and does not know who changed them: hooks are shell scripts, and kubeadm and package managers are external
// programs. It knows files, packages and the settings of a system; clusters and containers are not its business.
package baseline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/packages"
	"github.com/sealift/sealift/internal/regularfile"
)

// State is the state of a host at one moment.
type State struct {
	Files    Files             `json:"files"`
	Packages map[string]string `json:"packages"` // versions by name
	System   host.State        `json:"system"`
	// Folders are those that the caller asked about: whether they were there with something in them.
	Folders map[string]bool `json:"folders"`
	// Links are the symbolic links among the folders, with their targets.
	Links map[string]string `json:"links,omitempty"`
	// Skipped are folders with too many files to be watched. They stay so: a look at one that is smaller later would find all of its files
	// new.
	Skipped []string `json:"skipped,omitempty"`
}

// Change is an install's change of one file or package.
type Change struct {
	Step string `json:"step"`           // that changed it last
	File *File  `json:"file,omitempty"` // the state that was left; nil when it was removed
	To   string `json:"to,omitempty"`   // the version of a package; empty when it was removed
}

// Changes are all of an install.
type Changes struct {
	Files    map[string]Change `json:"files"`
	Packages map[string]Change `json:"packages"`
	// Data are folders with data of others, besides Options.Data.
	Data []string `json:"data,omitempty"`
}

// Options select what is watched. The zero value watches this host.
type Options struct {
	Root    string   // of the host's file system, default /
	Skip    []string // unwatched paths, such as the install root
	Folders []string // whose existence is recorded; they may be separate file systems
	Data    []string // folders that pods write into: they are watched, and nothing below them
}

// Record is the memory of one host, kept in a folder. Of its methods only Note may be called by several steps at once.
type Record struct {
	dir     string
	options Options
	before  *State
	noting  sync.Mutex
	seen    seen
	changes Changes
	learned bool // of folders with data that are not on disk yet
}

// seen is the last observed state.
type seen struct {
	Files    Files             `json:"files"`
	Packages map[string]string `json:"packages"`
	Stamp    string            `json:"stamp"` // of the package manager's database
	// Skipped are folders with too many files to be watched, since the first time. Their files are as they were seen last.
	Skipped []string `json:"skipped,omitempty"`
}

// The files of a Record. The first is written last: when it is there, so are the contents.
const (
	beforeName   = "before.json"
	contentsName = "before.tar.gz"
	changesName  = "changes.json"
	seenName     = "seen.json"
)

// Exists reports whether dir has a record with the state before the first change.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, beforeName))
	return err == nil
}

// Open reads the record in dir. A missing record is not an error.
func Open(dir string, o Options) (*Record, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	r := &Record{dir: dir, options: o, changes: Changes{Files: map[string]Change{}, Packages: map[string]Change{}}}
	var before State
	err := r.read(beforeName, &before)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.before, r.seen = &before, seen{Files: before.Files, Packages: before.Packages}
	var last seen // not decoded over r.seen, whose maps are those of the baseline
	switch err := r.read(seenName, &last); {
	case err == nil:
		r.seen = last
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := r.read(changesName, &r.changes); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// an earlier release looked at them when they were smaller
	maps.DeleteFunc(r.changes.Files, func(path string, _ Change) bool { return files.IsIn(path, before.Skipped) })
	return r, nil
}

func (r *Record) read(name string, into any) error {
	data, err := regularfile.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s is damaged: %w", filepath.Join(r.dir, name), err)
	}
	return nil
}

func (r *Record) write(name string, value any) error {
	return files.Fill(filepath.Join(r.dir, name), 0o600, func(w *os.File) error { return json.NewEncoder(w).Encode(value) })
}

// Before returns the state before the first change, nil if it was never taken.
func (r *Record) Before() *State { return r.before }

// Changes returns the changes, by path and by name.
func (r *Record) Changes() Changes { return r.changes }

// Unwatch names more folders that pods write into. What is below them, or where they lead as links, is never recorded as a change of a
// step, nor reverted, also if an earlier run recorded it. The next Begin remembers them.
func (r *Record) Unwatch(folders ...string) {
	for _, folder := range folders {
		if !filepath.IsAbs(folder) {
			continue
		}
		places := []string{filepath.Clean(folder)}
		if target, err := filepath.EvalSymlinks(filepath.Join(r.options.Root, folder)); err == nil {
			places = append(places, filepath.Join("/", strings.TrimPrefix(target, r.options.Root)))
		}
		for _, place := range places {
			if !slices.Contains(r.data(), place) {
				r.changes.Data = append(r.changes.Data, place)
				r.learned = true
			}
		}
	}
}

// remember writes what Unwatch has named.
func (r *Record) remember() error {
	if !r.learned {
		return nil
	}
	r.learned = false
	return r.write(changesName, r.changes)
}

// data are the folders whose content is not watched.
func (r *Record) data() []string { return slices.Concat(r.options.Data, r.changes.Data) }

// watching are the options with all folders that have become known.
func (r *Record) watching() Options {
	o := r.options
	o.Data = r.data()
	return o
}

// Look reads the current state of the host, as far as it is watched.
func (r *Record) Look(ctx context.Context) (State, error) { return Look(ctx, r.watching()) }

// Begin is called before a run changes anything. The first time it records the baseline. Later, what changed since the last look is put
// down to the step that was open when the last run was killed, or to the steps; if none was, others changed it, and it is theirs.
func (r *Record) Begin(ctx context.Context, open string) error {
	return r.BeginWithout(ctx, open, func(*State) {})
}

// BeginWithout is Begin on a host with foreign changes that are reverted with the rest. What forget removes from the baseline
// counts as not there before.
func (r *Record) BeginWithout(ctx context.Context, open string, forget func(*State)) error {
	if r.before == nil {
		if err := r.take(ctx, forget); err != nil {
			return err
		}
		return r.remember()
	}
	if err := r.remember(); err != nil {
		return err
	}
	if open != "" {
		return r.Note(ctx, open)
	}
	now, err := r.look(ctx)
	if err != nil {
		return err
	}
	r.seen = now
	return r.write(seenName, r.seen)
}

func (r *Record) take(ctx context.Context, forget func(*State)) error {
	if err := files.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	before, err := r.Look(ctx)
	if err != nil {
		return fmt.Errorf("record the state of the host: %w", err)
	}
	forget(&before)
	if err := keepContents(filepath.Join(r.dir, contentsName), r.options.Root, before.Files); err != nil {
		return fmt.Errorf("record the state of the host: %w", err)
	}
	if err := r.write(beforeName, before); err != nil {
		return err
	}
	r.before, r.seen = &before, seen{Files: before.Files, Packages: before.Packages, Stamp: packages.Stamp()}
	return nil
}

// Look reads the current state of a host.
func Look(ctx context.Context, o Options) (s State, err error) {
	if o.Root == "" {
		o.Root = "/"
	}
	if s.Files, s.Skipped, err = scan(o, nil, nil); err != nil {
		return s, err
	}
	if s.Packages, err = packages.Installed(ctx); err != nil {
		return s, err
	}
	s.Folders, s.Links = make(map[string]bool), make(map[string]string)
	for _, folder := range o.Folders {
		if target, err := os.Readlink(filepath.Join(o.Root, folder)); err == nil {
			s.Links[folder] = target
		}
		entries, err := os.ReadDir(filepath.Join(o.Root, folder))
		s.Folders[folder] = err == nil && len(entries) > 0
	}
	s.System, err = host.ReadState(ctx)
	return s, err
}

// skipped are the folders that were too large at some time.
func (r *Record) skipped() []string { return slices.Concat(r.before.Skipped, r.seen.Skipped) }

func (r *Record) look(ctx context.Context) (seen, error) {
	now := seen{Packages: r.seen.Packages, Stamp: packages.Stamp()}
	var err error
	if now.Files, now.Skipped, err = scan(r.watching(), r.skipped(), r.seen.Files); err != nil {
		return now, err
	}
	if now.Stamp != r.seen.Stamp || now.Stamp == "" {
		now.Packages, err = packages.Installed(ctx)
	}
	return now, err
}

// Note attributes changes since the last observation to a step, and returns when that, and the step's own writes, are on disk.
// Changes of concurrent steps may be attributed to either.
func (r *Record) Note(ctx context.Context, step string) error {
	r.noting.Lock()
	defer r.noting.Unlock()
	if err := r.sync(); err != nil {
		return fmt.Errorf("sync the changes of step %s: %w", step, err)
	}
	now, err := r.look(ctx)
	if err != nil {
		return fmt.Errorf("record the changes of step %s: %w", step, err)
	}
	changed := r.compare(now, step) || len(now.Skipped) > len(r.seen.Skipped)
	r.seen = now
	if !changed {
		return nil
	}
	if err := r.write(changesName, r.changes); err != nil {
		return err
	}
	return r.write(seenName, r.seen)
}

// compare adds the differences from the last observation to the changes.
func (r *Record) compare(now seen, step string) (changed bool) {
	data := r.data()
	for path := range union(r.seen.Files, now.Files) {
		if below(path, data) { // an earlier run watched it
			continue
		}
		was, had := r.seen.Files[path]
		is, has := now.Files[path]
		if had == has && was.same(is) {
			continue
		}
		changed = true
		before, existed := r.before.Files[path]
		switch {
		case existed == has && before.same(is):
			delete(r.changes.Files, path)
		case has:
			r.changes.Files[path] = Change{Step: step, File: &is}
		default:
			r.changes.Files[path] = Change{Step: step}
		}
	}
	for name := range union(r.seen.Packages, now.Packages) {
		if r.seen.Packages[name] == now.Packages[name] {
			continue
		}
		changed = true
		if r.before.Packages[name] == now.Packages[name] {
			delete(r.changes.Packages, name)
		} else {
			r.changes.Packages[name] = Change{Step: step, To: now.Packages[name]}
		}
	}
	return changed
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	if all == nil {
		all = make(map[string]V)
	}
	maps.Copy(all, b)
	return all
}

// sync writes the file systems that steps change to the disk. Shell scripts and the programs that they call do not.
func (r *Record) sync() error {
	done := make(map[uint64]bool)
	for _, path := range slices.Concat([]string{"/", r.dir, "/var/lib", "/usr", "/etc"}, watched(), r.options.Folders) {
		name := path
		if path != r.dir {
			name = filepath.Join(r.options.Root, path)
		}
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a folder, or a file; a pipe would block
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &stat)
		if err == nil && !done[stat.Dev] {
			done[stat.Dev] = true
			err = unix.Syncfs(int(f.Fd()))
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
