package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/sealift/sealift/bundle/patch"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/compression"
)

// PatchDir is the folder of the patches in a bundle. Each is named after its sha256.
const PatchDir = "patches"

// Patch says how a file is made of another one. Entry.Link is the path of that one.
type Patch struct {
	// Path is that of the patch, an earlier file of the archive.
	Path string `json:"path"`
	// Within means that this archive has the other file itself, and else the earlier bundle has it.
	Within bool `json:"within,omitempty"`
	// Base is the other file as it is there. If it is compressed with gzip or zstd, it is unpacked first.
	Base Blob `json:"base"`
	// From is what the patch applies to: the base, unpacked.
	From Blob `json:"from"`
	// Memory is the most that applying takes, in bytes.
	Memory int64 `json:"memory"`
}

// OfPatches reports whether a file is a patch: readers of the files do not need it.
func OfPatches(e Entry) bool { return strings.HasPrefix(e.Path, PatchDir+"/") }

// validatePatch checks the description of a patched entry.
func (e *Entry) validatePatch(seen map[string]*Entry) error {
	p := e.Patch
	made := seen[p.Path]
	switch {
	case !p.Within && (made == nil || made.absent()): // see validateWithin
		return fmt.Errorf("its patch %q is not an earlier file of the archive", p.Path)
	case !validDigest(p.Base.SHA256) || !validDigest(p.From.SHA256):
		return errors.New("is patched without the digests of its base")
	case p.Base.Size < 0 || p.From.Size < 0 || max(p.Base.Size, p.From.Size, e.Size) > patch.MaxSize:
		return fmt.Errorf("is patched with an impossible size: base %d, unpacked %d, result %d bytes; a patch is for at most %d", p.Base.Size, p.From.Size, e.Size, patch.MaxSize)
	case p.Memory < patch.Memory || p.Memory > maxPatchMemory:
		return fmt.Errorf("takes %d bytes of memory, and this sealift allows %d to %d", p.Memory, patch.Memory, maxPatchMemory)
	}
	return nil
}

// validateWithin checks the entries that are made of another file of the archive: that file and the patch must be there, in any order.
func (x Index) validateWithin(entries map[string]*Entry) error {
	for i := range x.Entries {
		e := &x.Entries[i]
		if !e.Within() {
			continue
		}
		base, made := entries[e.Link], entries[e.Patch.Path]
		switch {
		case made == nil || made.absent():
			return fmt.Errorf("entry %q: its patch %q is not in the archive", e.Path, e.Patch.Path)
		case base == nil || base.absent():
			return fmt.Errorf("entry %q: is made of %q, which the archive does not have", e.Path, e.Link)
		case base.SHA256 != e.Patch.Base.SHA256 || base.Size != e.Patch.Base.Size:
			return fmt.Errorf("entry %q: is made of %q, which has another content", e.Path, e.Link)
		}
	}
	return nil
}

// maxPatchMemory is the most memory that a patch may say it takes, in bytes.
const maxPatchMemory = 64 << 20

// results are the files that patches made, each once, as files without a name on the disk.
type results struct {
	mu   sync.Mutex          // held while a patch is applied: each takes memory
	made map[string]*os.File // by sha256
	// bases are the files of this archive to which patches applied, by sha256: others may apply to them, too.
	bases map[string]*os.File
}

func (r *results) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, file := range r.bases {
		errs = append(errs, file.Close())
	}
	for _, file := range r.made {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// result returns an archive with the file that a patch makes, and the file's path in it. The first call makes it, and compares the
// base and the file with their digests.
func (a *Archive) result(e Entry) (*Archive, string, error) {
	a.results.mu.Lock()
	defer a.results.mu.Unlock()
	made := a.results.made[e.SHA256]
	if made == nil {
		err := a.checkSpace(func(other Entry) bool { return other.SHA256 == e.SHA256 })
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", e.Path, err)
		}
		if made, err = a.applyPatch(e); err != nil {
			return nil, "", fmt.Errorf("%s: %w", e.Path, err)
		}
		if a.results.made == nil {
			a.results.made = make(map[string]*os.File)
		}
		a.results.made[e.SHA256] = made
	}
	plain := Entry{Path: e.Path, Mode: e.Mode, Size: e.Size, SHA256: e.SHA256, Layer: e.Layer}
	open := func(Entry) (io.ReadCloser, error) {
		return struct {
			*io.SectionReader
			io.Closer
		}{io.NewSectionReader(made, 0, e.Size), io.NopCloser(nil)}, nil
	}
	return &Archive{entries: map[string]Entry{e.Path: plain}, unpacked: open}, e.Path, nil
}

// applyPatch makes a file. Nothing is read from it before it has its digest.
func (a *Archive) applyPatch(e Entry) (_ *os.File, err error) {
	base, release, err := a.baseOfPatch(e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	data, err := a.OpenEntry(e.Patch.Path)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	r, err := patch.NewReader(data, base, e.Patch.From.Size, e.Size)
	if err == nil {
		defer r.Close()
		var made *os.File
		if made, err = temporary(io.MultiReader(r, drained{data}), Blob{e.SHA256, e.Size}); err == nil {
			return made, nil
		}
	}
	// A patch with another digest explains every other error.
	if _, damaged := io.Copy(io.Discard, data); damaged != nil {
		return nil, damaged
	}
	return nil, fmt.Errorf("apply %s to %s: %w; use a bundle that has the whole file", e.Patch.Path, e.Link, err)
}

// drained reads the rest of a patch, so that it is compared with its digest.
type drained struct{ io.Reader }

func (d drained) Read([]byte) (int, error) {
	if _, err := io.Copy(io.Discard, d.Reader); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// baseOfPatch returns the base of a patched entry, unpacked and compared with its digests. Call release after use.
func (a *Archive) baseOfPatch(e Entry) (_ *os.File, release func() error, err error) {
	r := &a.results
	keep := func() error { return nil }
	if kept := r.bases[e.Patch.From.SHA256]; kept != nil && e.Within() {
		return kept, keep, nil
	}
	if !e.Within() {
		base, err := unpackedBase(a.base, e)
		return base, func() error { return base.Close() }, err
	}
	base, err := unpackedBase(a, e)
	if err != nil {
		return nil, nil, err
	}
	if r.bases == nil {
		r.bases = make(map[string]*os.File)
	}
	r.bases[e.Patch.From.SHA256] = base
	return base, keep, nil
}

func unpackedBase(from *Archive, e Entry) (*os.File, error) {
	packed, err := from.OpenEntry(e.Link)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	plain := io.NopCloser(packed)
	if e.Patch.From != e.Patch.Base {
		plain, err = compression.NewReader(packed, MaxLayerWindow)
	}
	if err == nil {
		defer plain.Close()
		var base *os.File
		if base, err = temporary(io.MultiReader(plain, drained{packed}), e.Patch.From); err == nil {
			return base, nil
		}
	}
	if _, damaged := io.Copy(io.Discard, packed); damaged != nil {
		err = damaged
	}
	return nil, fmt.Errorf("the base of its patch: %w; use a bundle that has the whole file", err)
}

// temporary writes a content into a file without a name and compares it with its digest.
func temporary(r io.Reader, want Blob) (_ *os.File, err error) {
	f, err := atomicfile.Nameless(temporaryDir())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(r, want.Size+1))
	if err != nil {
		return nil, err
	}
	if n != want.Size {
		return nil, fmt.Errorf("the content does not have the %d bytes that the index says", want.Size)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.SHA256 {
		return nil, &DigestError{Path: "the content", Got: got, Want: want.SHA256}
	}
	return f, nil
}
