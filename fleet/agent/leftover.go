package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/atomicfile"
)

// leftName is the folder in the content folder that has a file for each work that is to be removed, until it is. A removal that was
// killed or is blocked on the cluster is thus retried with each parcel, even if no later one has the work.
const leftName = "left"

// left returns the works that this parcel no longer has: those of the last one, and those that could not be removed before.
func (w *carrier) left(p parcel.Parcel, memory seal.Memory) (all []*ocm.ManifestWork, err error) {
	had, err := w.lastWorks()
	if err != nil {
		return nil, err
	}
	noted, err := w.noted()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, one := range p.Works {
		seen[one.Name] = true
	}
	for _, one := range append(had, noted...) {
		if mark, known := memory[one.Name]; !known || mark.Gone || seen[one.Name] {
			continue
		}
		seen[one.Name] = true
		work, _, err := w.origin(one)
		if err != nil {
			return nil, err
		}
		all = append(all, work)
	}
	return all, nil
}

// lastWorks are the works of the last parcel that it did not remove.
func (w *carrier) lastWorks() (works []parcel.Work, err error) {
	current, err := currentContent(w.Content)
	if err != nil || current == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, current.Close()) }()
	had, err := parcel.ReadUnpacked(current)
	if err != nil {
		return nil, fmt.Errorf("the content in %s: %w", w.Content, err)
	}
	return slices.DeleteFunc(had.Works, func(one parcel.Work) bool { return one.Deleted }), nil
}

// noted reads the notes of works that are to be removed.
func (w *carrier) noted() (works []parcel.Work, err error) {
	entries, err := os.ReadDir(filepath.Join(w.Content, leftName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(w.Content, leftName, e.Name()))
		if err != nil {
			return nil, err
		}
		one, err := parcel.ReadWork(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(w.Content, leftName, e.Name()), err)
		}
		works = append(works, one)
	}
	return works, err
}

// note is the file of a work that has to be removed.
func (w *carrier) note(name string) string {
	return filepath.Join(w.Content, leftName, url.PathEscape(name)+".json")
}

// removeAll removes works, and returns those that cannot be removed, with the reason: an object with a finalizer must not block the rest of
// the cluster. Notes of other works are obsolete: they are gone, or the parcel restores them.
func (w *carrier) removeAll(ctx context.Context, all []*ocm.ManifestWork) (stuck map[string]string, err error) {
	if err := os.MkdirAll(filepath.Join(w.Content, leftName), 0o700); err != nil {
		return nil, err
	}
	old, err := w.noted()
	if err != nil {
		return nil, err
	}
	names := namesOf(all)
	for _, one := range old {
		if !slices.Contains(names, one.Name) {
			if err := os.Remove(w.note(one.Name)); err != nil {
				return nil, err
			}
		}
	}
	for _, work := range all {
		text, err := json.Marshal(parcel.Work{Name: work.Name, Seal: work.Annotations[seal.Annotation], Spec: work.Spec})
		if err == nil {
			err = atomicfile.Write(w.note(work.Name), text)
		}
		if err != nil {
			return nil, err
		}
	}
	stuck = map[string]string{}
	for _, work := range all {
		err := w.delete(ctx, work)
		if err == nil {
			err = os.Remove(w.note(work.Name))
		}
		if ctx.Err() != nil {
			return stuck, ctx.Err()
		}
		if err != nil {
			stuck[work.Name] = err.Error()
			w.Carried.Log.WarnContext(ctx, "a work cannot be removed", "work", work.Name, "error", err)
		}
	}
	return stuck, nil
}
