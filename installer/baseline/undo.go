package baseline

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Left is something that is not as it was, and why.
type Left struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// UndoFiles gives the files that the install changed the state back that they had before, where they are still as the
// install left them. What someone changed since is kept, and returned. The paths in except are not looked at. It may be
// called any number of times.
func (r *Record) UndoFiles(except ...string) (left []Left, err error) {
	var errs []error
	back := make(Files)
	// What is in a folder goes before the folder.
	paths := slices.Sorted(maps.Keys(r.changes.Files))
	slices.Reverse(paths)
	for _, path := range paths {
		if slices.Contains(except, path) {
			continue
		}
		change := r.changes.Files[path]
		before, existed := r.before.Files[path]
		now, there, err := lookAt(r.options.Root, path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case there == existed && now.same(before):
		case existed && (!there && change.File != nil):
			left = append(left, Left{path, "removed by someone else after step " + change.Step + " had changed it; it stays removed"})
		case !there && !existed:
		case there && (change.File == nil || !now.same(*change.File)):
			left = append(left, Left{path, "changed by someone else after step " + change.Step + " wrote it; it is kept as it is now"})
		case existed:
			back[path] = before
		default:
			kept, err := r.remove(path, now)
			left, errs = append(left, kept...), append(errs, err)
		}
	}
	if len(back) > 0 {
		missing, err := restore(filepath.Join(r.dir, contentsName), r.options.Root, back)
		errs = append(errs, err)
		for _, path := range missing {
			left = append(left, Left{path, fmt.Sprintf("replaced by step %s; it was too large for its former content to be kept", r.changes.Files[path].Step)})
		}
	}
	slices.SortFunc(left, func(a, b Left) int { return strings.Compare(a.What, b.What) })
	return left, errors.Join(errs...)
}

// remove takes away what the install made. A folder in which others put something stays.
func (r *Record) remove(path string, f File) ([]Left, error) {
	name := filepath.Join(r.options.Root, path)
	err := os.Remove(name)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case f.Mode.IsDir() && (errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)):
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if _, explained := r.changes.Files[filepath.Join(path, e.Name())]; !explained {
				return []Left{{path, "has files that this install did not make, such as " + e.Name()}}, nil
			}
		}
		return nil, nil
	case errors.Is(err, syscall.EBUSY):
		return []Left{{path, "something is mounted there"}}, nil
	}
	return nil, err
}

// Differences compares a state with the one before: what is not as it was, by path, package or setting.
func (r *Record) Differences(now State) (different []Left) {
	for path := range union(r.before.Files, now.Files) {
		before, existed := r.before.Files[path]
		is, there := now.Files[path]
		switch {
		case existed == there && before.same(is):
		case !existed:
			if parent, known := r.before.Files[filepath.Dir(path)]; !known || !parent.Mode.IsDir() {
				if _, shown := now.Files[filepath.Dir(path)]; shown { // its folder is named
					continue
				}
			}
			different = append(different, Left{path, "was not there before"})
		case !there:
			different = append(different, Left{path, "was there before"})
		default:
			different = append(different, Left{path, "differs from before"})
		}
	}
	for name := range union(r.before.Packages, now.Packages) {
		before, is := r.before.Packages[name], now.Packages[name]
		switch {
		case before == is:
		case before == "":
			different = append(different, Left{"package " + name, "was not installed before"})
		case is == "":
			different = append(different, Left{"package " + name, "was installed before, in version " + before})
		default:
			different = append(different, Left{"package " + name, fmt.Sprintf("has version %s, and had %s before; the former version is not in the bundle", is, before)})
		}
	}
	for _, d := range now.System.Differences(r.before.System) {
		different = append(different, Left{d.What, d.Why})
	}
	slices.SortFunc(different, func(a, b Left) int { return strings.Compare(a.What, b.What) })
	return different
}
