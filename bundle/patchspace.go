package bundle

import (
	"fmt"
	"os"

	"github.com/sealift/sealift/internal/diskspace"
)

// SpaceError reports that the folder in which patches are applied is too small.
type SpaceError struct {
	Dir          string
	Free, Needed uint64 // bytes
}

func (e *SpaceError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("%s has %d MiB free, and making files of patches takes %d MiB there: %d MiB are missing; free some, or name a folder on another disk with TMPDIR",
		e.Dir, e.Free/mib, (e.Needed+mib-1)/mib, (e.Needed-e.Free+mib-1)/mib)
}

// PatchSpace returns the folder in which patches are applied, and how many bytes that still takes there at once: each result, the files
// of this archive that they are made of, unpacked, and the largest file of an earlier one. All but the last stay until Close. The earlier bundle may have to make files for that, too.
func (a *Archive) PatchSpace() (dir string, bytes uint64) {
	a.results.mu.Lock()
	defer a.results.mu.Unlock()
	return temporaryDir(), a.patchSpace(func(Entry) bool { return true })
}

// patchSpace is PatchSpace for some entries. a.results.mu is held.
func (a *Archive) patchSpace(wanted func(Entry) bool) (bytes uint64) {
	var base int64
	counted, bases := make(map[string]bool), make(map[string]bool)
	if !a.partial { // somebody else has the files
		return 0
	}
	count := func(in *Archive, e Entry) {
		if e.Encoding != Patched || counted[e.SHA256] || in.results.made[e.SHA256] != nil {
			return
		}
		counted[e.SHA256] = true
		bytes += uint64(e.Size)
		from := e.Patch.From
		if !e.Within() {
			base = max(base, from.Size)
		} else if in.results.bases[from.SHA256] == nil && !bases[from.SHA256] {
			bases[from.SHA256] = true
			bytes += uint64(from.Size)
		}
	}
	if a.base != nil {
		a.base.results.mu.Lock()
		defer a.base.results.mu.Unlock()
	}
	for _, e := range a.Index.Entries {
		if !wanted(e) {
			continue
		}
		count(a, e)
		if a.base != nil && e.NeedsBase() {
			count(a.base, a.base.entries[e.Link])
		}
	}
	return bytes + uint64(base)
}

// checkSpaceFor is checkSpace for a caller that does not hold a.results.mu.
func (a *Archive) checkSpaceFor(wanted func(Entry) bool) error {
	a.results.mu.Lock()
	defer a.results.mu.Unlock()
	return a.checkSpace(wanted)
}

// checkSpace returns a SpaceError if the results of some entries do not fit. a.results.mu is held.
func (a *Archive) checkSpace(wanted func(Entry) bool) error {
	needed := a.patchSpace(wanted)
	if needed == 0 {
		return nil
	}
	dir := temporaryDir()
	space, err := diskspace.Of(dir)
	if err == nil && space.Bytes < needed {
		err = &SpaceError{Dir: dir, Free: space.Bytes, Needed: needed}
	}
	return err
}

// temporaryDir returns the folder for results: that of TMPDIR, or one that is on a disk. /tmp may be in memory.
func temporaryDir() string {
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	return "/var/tmp"
}
