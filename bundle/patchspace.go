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

// PatchSpace returns the folder in which patches are applied, and how many bytes that still takes there at once: each result, and the
// largest base, unpacked. Results stay until Close.
func (a *Archive) PatchSpace() (dir string, bytes uint64) {
	a.results.mu.Lock()
	defer a.results.mu.Unlock()
	return temporaryDir(), a.patchSpace(func(Entry) bool { return true })
}

// patchSpace is PatchSpace for some entries. a.results.mu is held.
func (a *Archive) patchSpace(wanted func(Entry) bool) (bytes uint64) {
	var base int64
	counted := make(map[string]bool)
	for _, e := range a.Index.Entries {
		if e.Encoding != Patched || counted[e.SHA256] || a.results.made[e.SHA256] != nil || !wanted(e) {
			continue
		}
		counted[e.SHA256] = true
		bytes += uint64(e.Size)
		base = max(base, e.Patch.From.Size)
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
