package baseline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sealift/sealift/installer/host/files"
)

// Left is something that was not restored, and why.
type Left struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Failed means that it should have been restored. The same call tries again.
	Failed bool `json:"failed,omitempty"`
}

// Undo is an action of UndoFiles.
type Undo struct {
	Written []string `json:"written"` // files, folders and links that get their former content, owner and mode
	Removed []string `json:"removed"` // that the install made
	Left    []Left   `json:"left"`
}

// PlanUndo returns what UndoFiles would do now. It changes nothing.
func (r *Record) PlanUndo(except ...string) (u Undo, err error) {
	u = r.plan(except)
	slices.Sort(u.Removed)
	if len(u.Written) == 0 {
		return u, nil
	}
	kept := []string{}
	err = eachKept(r.contents(), func(path string, _ io.Reader) {
		if slices.Contains(u.Written, path) {
			kept = append(kept, path)
		}
	})
	for _, path := range u.Written {
		if !slices.Contains(kept, path) {
			u.Left = append(u.Left, r.unkept(path))
		}
	}
	slices.Sort(kept)
	u.Written = kept
	sortLeft(u.Left)
	return u, err
}

// UndoFiles restores the files that the install changed, where they are still as the install left them. What someone changed since is
// kept, and returned. So are files that cannot be restored safely, because their folder was replaced. The paths in except, and what is
// below them, are not looked at; nor is what is below folders with data. It may be called any number of times.
func (r *Record) UndoFiles(except ...string) (left []Left, err error) {
	u := r.plan(except)
	left = u.Left
	for _, path := range u.Removed {
		left = append(left, r.remove(path)...)
	}
	if len(u.Written) > 0 {
		missing := u.Written
		err = eachKept(r.contents(), func(path string, content io.Reader) {
			if slices.Contains(missing, path) {
				left = append(left, r.restore(path, content)...)
				missing = slices.DeleteFunc(missing, func(one string) bool { return one == path })
			}
		})
		for _, path := range missing {
			left = append(left, r.unkept(path))
		}
	}
	sortLeft(left)
	return left, err
}

func sortLeft(left []Left) {
	slices.SortFunc(left, func(a, b Left) int { return strings.Compare(a.What, b.What) })
}

// plan returns what has to be done. The content of a folder comes before the folder.
func (r *Record) plan(except []string) Undo {
	u := Undo{Written: []string{}, Removed: []string{}, Left: []Left{}}
	paths := slices.Sorted(maps.Keys(r.changes.Files))
	slices.Reverse(paths)
	data := r.data()
	for _, path := range paths {
		if files.IsIn(path, except) || below(path, data) {
			continue
		}
		change := r.changes.Files[path]
		before, existed := r.before.Files[path]
		now, there, err := r.currentFile(path)
		switch {
		case err != nil:
			u.Left = append(u.Left, failed(path, err))
		case there == existed && now.same(before):
		case existed && (!there && change.File != nil):
			u.Left = append(u.Left, Left{What: path, Why: "removed by someone else after step " + change.Step + " had changed it; it stays removed"})
		case !there && !existed:
		case there && (change.File == nil || !now.same(*change.File) || !now.sameInode(*change.File)):
			u.Left = append(u.Left, changedSince(path, change.Step))
		case existed:
			u.Written = append(u.Written, path)
		default:
			if others, err := r.others(path, now, u.Removed); err != nil || others != "" {
				u.Left = append(u.Left, r.keeps(path, others, err)...)
				continue
			}
			u.Removed = append(u.Removed, path)
		}
	}
	slices.Sort(u.Written) // a folder before its content
	wanted := u.Written
	u.Written = []string{}
	for _, path := range wanted {
		if !slices.Contains(u.Written, filepath.Dir(path)) && r.lacksFolder(path) {
			u.Left = append(u.Left, folderRemoved(path))
			continue
		}
		u.Written = append(u.Written, path)
	}
	sortLeft(u.Left)
	return u
}

func (r *Record) lacksFolder(path string) bool {
	folder, err := r.folder(path)
	if err == nil {
		err = folder.Close()
	}
	return isMissing(err)
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func folderRemoved(path string) Left {
	return Left{What: path, Why: "its folder was removed by someone else; it stays removed"}
}

func changedSince(path, step string) Left {
	return Left{What: path, Why: "changed by someone else after step " + step + " wrote it; it is kept as it is now"}
}

func failed(path string, err error) Left {
	why := err.Error()
	if errors.Is(err, files.ErrUnsafe) {
		why += "; nothing was changed there: see what it is, move it away or put it right, and run 'sealift reset' again"
	}
	return Left{What: path, Why: why, Failed: true}
}

func (r *Record) unkept(path string) Left {
	return Left{What: path, Why: fmt.Sprintf("replaced by step %s; it was too large for its former content to be kept, or changed while it was read", r.changes.Files[path].Step)}
}

// others returns the name of something in a folder that is not going to be removed.
func (r *Record) others(path string, now File, removed []string) (name string, err error) {
	if !now.Mode.IsDir() {
		return "", nil
	}
	folder, err := r.folder(filepath.Join(path, "x"))
	if err != nil {
		return "", err
	}
	defer folder.Close()
	names, err := folder.Names()
	for _, name := range names {
		if !slices.Contains(removed, filepath.Join(path, name)) {
			return name, err
		}
	}
	return "", err
}

// keeps explains why a folder stays, unless its content explains that.
func (r *Record) keeps(path, other string, err error) []Left {
	if err != nil {
		return []Left{failed(path, err)}
	}
	if _, explained := r.changes.Files[filepath.Join(path, other)]; explained {
		return nil
	}
	return []Left{{What: path, Why: "has files that this install did not make, such as " + other}}
}

func (r *Record) contents() string { return filepath.Join(r.dir, contentsName) }

// currentFile describes the current state of a path, if anything.
func (r *Record) currentFile(path string) (f File, there bool, err error) {
	folder, err := r.folder(path)
	if err == nil {
		f, err = describe(folder, filepath.Base(path), File{})
		err = errors.Join(err, folder.Close())
	}
	if isMissing(err) {
		return File{}, false, nil
	}
	return f, err == nil, err
}

// remove removes what the install created, if it is unchanged.
func (r *Record) remove(path string) []Left {
	change := r.changes.Files[path]
	folder, err := r.folder(path)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return []Left{failed(path, err)}
	}
	defer folder.Close()
	now, err := describe(folder, filepath.Base(path), File{})
	switch {
	case err == nil && !(now.same(*change.File) && now.sameInode(*change.File)):
		return []Left{changedSince(path, change.Step)}
	case err == nil:
		err = folder.Remove(filepath.Base(path))
	}
	switch {
	case err == nil || isMissing(err):
		return nil
	case errors.Is(err, syscall.EBUSY):
		return []Left{{What: path, Why: "something is mounted there"}}
	}
	return []Left{failed(path, err)}
}

// restore puts one file back.
func (r *Record) restore(path string, content io.Reader) []Left {
	folder, err := r.folder(path)
	if isMissing(err) {
		return []Left{folderRemoved(path)}
	}
	if err == nil {
		err = put(folder, filepath.Base(path), r.before.Files[path], r.changes.Files[path].File, content)
		err = errors.Join(err, folder.Close())
	}
	if err != nil {
		return []Left{failed(path, err)}
	}
	return nil
}

// Differences lists the differences between a state and the one before, by path, package or setting. Of folders that were too large to be
// watched at any time it has none.
func (r *Record) Differences(now State) (different []Left) {
	data, skipped := r.data(), append(r.skipped(), now.Skipped...)
	for path := range union(r.before.Files, now.Files) {
		before, existed := r.before.Files[path]
		is, there := now.Files[path]
		switch {
		case below(path, data), files.IsIn(path, skipped), existed == there && before.same(is):
		case !existed:
			if parent, known := r.before.Files[filepath.Dir(path)]; !known || !parent.Mode.IsDir() {
				if _, shown := now.Files[filepath.Dir(path)]; shown { // its folder is named
					continue
				}
			}
			different = append(different, Left{What: path, Why: "was not there before"})
		case !there:
			different = append(different, Left{What: path, Why: "was there before"})
		default:
			different = append(different, Left{What: path, Why: "differs from before"})
		}
	}
	for name := range union(r.before.Packages, now.Packages) {
		before, is := r.before.Packages[name], now.Packages[name]
		switch {
		case before == is:
		case before == "":
			different = append(different, Left{What: "package " + name, Why: "was not installed before"})
		case is == "":
			different = append(different, Left{What: "package " + name, Why: "was installed before, in version " + before})
		default:
			different = append(different, Left{What: "package " + name, Why: fmt.Sprintf("has version %s, and had %s before; the former version is not in the bundle", is, before)})
		}
	}
	for _, d := range now.System.Differences(r.before.System) {
		different = append(different, Left{What: d.What, Why: d.Why})
	}
	sortLeft(different)
	return different
}
