package parts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/internal/regularfile"
)

// maxFiles is how many files of a folder are looked at.
const maxFiles = 4096

// maxCopies is how many files with the same part are open.
const maxCopies = 8

// found is a file that is, or was, a part.
type found struct {
	name string
	head
}

// finding is everything that the named places have.
type finding struct {
	looked []string // folders
	parts  []found
	notes  []string // about files that cannot be used
	chosen string   // the set of a part that was named
}

// MissingError reports that too few parts were found.
type MissingError struct {
	Set     Set
	Missing []int    // numbers of the parts that were not found, from 1
	Looked  []string // folders
	Notes   []string // files there that cannot be used, and why
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("%d of the %d parts of the archive %s are needed, and %d were found in %s: %s missing",
		e.Set.Data, e.Set.total(), e.Set.Archive, e.Set.total()-len(e.Missing), strings.Join(e.Looked, " and "), list(e.Missing))
	for _, note := range e.Notes {
		text += "; " + note
	}
	return text + "; name all folders that have parts, as DIR" + string(os.PathListSeparator) + "DIR"
}

// list is "part 2 is", "parts 2, 3 and 9 are".
func list(numbers []int) string {
	text := numbersOf(numbers)
	if len(numbers) == 1 {
		return text + " is"
	}
	return text + " are"
}

// numbersOf is "part 2", "parts 2, 3 and 9", "parts 4 to 9".
func numbersOf(numbers []int) string {
	var runs []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		switch {
		case j-i >= 2:
			runs = append(runs, fmt.Sprintf("%d to %d", numbers[i], numbers[j]))
		default:
			for _, n := range numbers[i : j+1] {
				runs = append(runs, strconv.Itoa(n))
			}
		}
		i = j + 1
	}
	word := "parts "
	if len(numbers) == 1 {
		word = "part "
	}
	if last := len(runs) - 1; last > 0 {
		return word + strings.Join(runs[:last], ", ") + " and " + runs[last]
	}
	return word + strings.Join(runs, "")
}

// ErrNone reports that no part was found.
var ErrNone = errors.New("has no part of an archive")

// Open opens the set whose parts are in the named folders. A named file is a part: it decides which set is meant, and its folder is
// looked in, too. As many parts as there is data are enough. If several sets are there, the only one with enough parts is opened.
// Close the Reader. The error is a *MissingError if there are too few.
func Open(names ...string) (*Reader, error) {
	f, err := find(names)
	if err != nil {
		return nil, err
	}
	set, err := f.choose()
	if err != nil {
		return nil, err
	}
	r := f.open(set)
	if missing := r.Missing(); r.set.total()-len(missing) < r.set.Data {
		return nil, errors.Join(&MissingError{Set: r.set, Missing: missing, Looked: f.looked, Notes: r.notes}, r.Close())
	}
	return r, nil
}

func find(names []string) (*finding, error) {
	f := &finding{}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			file, h, err := openPart(name)
			if file != nil {
				_ = file.Close()
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if f.chosen != "" && f.chosen != h.id {
				return nil, fmt.Errorf("%s belongs to another set of parts than those named before it", name)
			}
			f.chosen, name = h.id, filepath.Dir(name)
		}
		if slices.Contains(f.looked, name) {
			continue
		}
		f.looked = append(f.looked, name)
		if err := f.look(name); err != nil {
			return nil, err
		}
	}
	if len(f.parts) == 0 {
		return nil, fmt.Errorf("%s %w%s", strings.Join(f.looked, " and "), ErrNone, strings.Join(append([]string{""}, f.notes...), "; "))
	}
	return f, nil
}

// look reads the heads of the parts in a folder.
func (f *finding) look(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxFiles)
	if err != nil && len(entries) > 0 {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		file, h, err := openPart(name)
		if file != nil {
			_ = file.Close()
		}
		switch {
		case err == nil:
			h.table = nil // open reads those of the chosen set
			f.parts = append(f.parts, found{name, h})
		case errors.Is(err, ErrNotPart), errors.Is(err, regularfile.ErrNot):
		default:
			f.notes = append(f.notes, fmt.Sprintf("%s: %v", name, err))
		}
	}
	return nil
}

// choose returns the set that is meant.
func (f *finding) choose() (string, error) {
	have := make(map[string]map[int]bool)
	var sets []found // one part of each
	for _, p := range f.parts {
		if have[p.id] == nil {
			have[p.id] = make(map[int]bool)
			sets = append(sets, p)
		}
		have[p.id][p.number] = true
	}
	if f.chosen != "" {
		return f.chosen, nil
	}
	enough := slices.DeleteFunc(slices.Clone(sets), func(p found) bool { return len(have[p.id]) < p.set.Data })
	if len(enough) > 1 {
		var names []string
		for _, p := range enough {
			names = append(names, p.name)
		}
		return "", fmt.Errorf("%s: has %d archives in parts; name a part of the one that is meant: %s", strings.Join(f.looked, " and "), len(enough), strings.Join(names, " or "))
	}
	if len(enough) == 1 {
		return enough[0].id, nil
	}
	most := slices.MaxFunc(sets, func(a, b found) int { return len(have[a.id]) - len(have[b.id]) })
	return most.id, nil
}

// open opens the parts of a set.
func (f *finding) open(id string) *Reader {
	r := &Reader{id: id, notes: slices.Clone(f.notes), cache: make(map[place]*block)}
	for _, p := range f.parts {
		if p.id == id {
			r.set = p.set
		}
	}
	r.files = make([]*file, r.set.total())
	r.code = code{data: r.set.Data, parity: r.set.Parity}
	// A copy whose description is whole is read before others.
	slices.SortStableFunc(f.parts, func(a, b found) int { return cmp.Compare(len(a.scratched), len(b.scratched)) })
	var foreign []string
	for _, p := range f.parts {
		if p.id != id {
			foreign = append(foreign, fmt.Sprintf("%s is part %d of another set, of the archive %s", p.name, p.number+1, p.set.Archive))
			continue
		}
		if err := r.add(p); err != nil {
			r.notes = append(r.notes, fmt.Sprintf("%s: %v", p.name, err))
		}
	}
	r.notes = append(r.notes, foreign...)
	return r
}

// add opens a part, or another copy of one.
func (r *Reader) add(p found) error {
	part := r.files[p.number]
	if part != nil && len(part.copies) == maxCopies {
		return nil
	}
	opened, h, err := openPart(p.name)
	if err == nil && (h.id != p.id || h.number != p.number) {
		err = errors.New("was replaced while it was read")
	}
	switch {
	case err != nil:
		if opened != nil {
			err = errors.Join(err, opened.Close())
		}
		return err
	case part == nil:
		r.files[p.number] = &file{head: h, copies: []*os.File{opened}, bad: make(map[int64]bool), spoiled: make(map[string]bool)}
	default: // it has the same table, whose digest is in the description
		part.copies = append(part.copies, opened)
		part.spoiled[p.name] = h.scratched != ""
	}
	return nil
}
