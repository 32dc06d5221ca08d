package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Extract writes the wanted entries below root, replacing files with the same path. Each file is verified before it gets
// its name: it is written to a temporary file, synced and renamed. Extract cannot write outside root.
func (a *Archive) Extract(ctx context.Context, root *os.Root, wanted func(Entry) bool) error {
	return a.ExtractAgain(ctx, root, root, wanted)
}

// ExtractAgain is Extract that reuses files of the folder from. If a file there matches the index, it is copied and
// verified instead of being read or fetched again.
func (a *Archive) ExtractAgain(ctx context.Context, root, from *os.Root, wanted func(Entry) bool) error {
	if err := a.checkSpaceFor(wanted); err != nil {
		return err
	}
	entries := slices.DeleteFunc(slices.Clone(a.Index.Entries), func(e Entry) bool { return !wanted(e) })
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	if a.remote != nil {
		group.SetLimit(1) // a remote archive is read sequentially
	}
	for i, ahead := range behindEach(entries) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := a.extract(root, from, entries[i], ahead); err != nil {
				return fmt.Errorf("extract: %w", err)
			}
			return nil
		})
	}
	return group.Wait()
}

// behindEach returns for each entry the number of bytes of other entries directly after it.
func behindEach(entries []Entry) []int64 {
	behind := make([]int64, len(entries))
	for i := len(entries) - 2; i >= 0; i-- {
		if next := entries[i+1]; entries[i].Offset+entries[i].Length == next.Offset {
			behind[i] = next.Length + behind[i+1]
		}
	}
	return behind
}

// contentFor opens an entry for extraction. If the target of a link is already extracted, it is read from there and not
// fetched again.
func (a *Archive) contentFor(root, from *os.Root, e Entry, ahead int64) (io.ReadCloser, error) {
	var same *os.File
	switch {
	case from != root:
		same = extracted(from, e)
	case e.Encoding == Link:
		same = extracted(root, a.bearer(e))
	}
	if same != nil {
		return newVerifiedReader(e, bare{same}), nil
	}
	return a.openEntry(e, ahead)
}

// extracted opens a file below root if it matches the entry.
func extracted(root *os.Root, e Entry) *os.File {
	f, err := regularfile.OpenIn(root, filepath.FromSlash(e.Path))
	if err != nil {
		return nil
	}
	digest, n, err := sha256hex.Read(f)
	if err == nil && n == e.Size && digest == e.SHA256 {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			return f
		}
	}
	_ = f.Close()
	return nil
}

// Unfinished is the end of the name of a file that Extract has not yet verified.
const Unfinished = ".sealift-new"

func (a *Archive) extract(root, from *os.Root, e Entry, ahead int64) (err error) {
	name := filepath.FromSlash(e.Path)
	if err := root.MkdirAll(filepath.FromSlash(path.Dir(e.Path)), 0o755); err != nil {
		return err
	}
	content, err := a.contentFor(root, from, e, ahead)
	if err != nil {
		return err
	}
	defer content.Close()
	temp := name + Unfinished
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(temp)
		}
	}()
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(fs.FileMode(e.Mode))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

// Verify reads every entry and reports each one that does not match the index. For a bundle it also reports packages that
// do not match their own indexes. Files that the bundle leaves out are read from the base that WithBase set. If the files that patches
// make do not fit on the disk, Verify returns a SpaceError before it makes any.
func (a *Archive) Verify(ctx context.Context) error {
	return a.VerifyFiles(ctx, func(Entry) bool { return true })
}

// VerifyHere is Verify without the base archive, and without the files that patches make.
func (a *Archive) VerifyHere(ctx context.Context) error {
	return a.verify(ctx, func(e Entry) bool { return !a.leavesOut(e) })
}

// VerifyFiles is Verify for the wanted entries alone.
func (a *Archive) VerifyFiles(ctx context.Context, wanted func(Entry) bool) error {
	if err := a.CheckBase(); err != nil {
		return err
	}
	return a.verify(ctx, wanted)
}

func (a *Archive) verify(ctx context.Context, wanted func(Entry) bool) error {
	if err := a.checkSpaceFor(wanted); err != nil {
		return err
	}
	errs := make([]error, len(a.Index.Entries)+1)
	errs[len(a.Index.Entries)] = a.verifyEnds()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, e := range a.Index.Entries {
		if !wanted(e) {
			continue
		}
		group.Go(func() error {
			errs[i] = a.verifyEntry(ctx, e)
			return nil
		})
	}
	_ = group.Wait() // all errors are collected in the order of the archive
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.Index.Kind == KindBundle && errors.Join(errs...) == nil {
		for _, p := range a.Index.Packages {
			_, err := a.packageIndex(p)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *Archive) verifyEntry(ctx context.Context, e Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Encoding == Link && a.unpacked == nil { // its target is an entry too, and is verified as one
		if err := a.checkLink(e); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		return nil
	}
	r, err := a.OpenEntry(e.Path)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}
