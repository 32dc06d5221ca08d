package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
)

// Extract writes the wanted entries below root, each verified before it has its name: a temporary file is filled, synced
// and renamed. Nothing outside root can be reached. What is there already with the same path is replaced.
func (a *Archive) Extract(ctx context.Context, root *os.Root, wanted func(Entry) bool) error {
	return a.ExtractAgain(ctx, root, root, wanted)
}

// ExtractAgain does so where the folder from may have the entries already. Files of from that are what the index says are
// not read from the archive, or fetched, again; they are verified in the same way.
func (a *Archive) ExtractAgain(ctx context.Context, root, from *os.Root, wanted func(Entry) bool) error {
	entries := slices.DeleteFunc(slices.Clone(a.Index.Entries), func(e Entry) bool { return !wanted(e) })
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	if a.far != nil {
		group.SetLimit(1) // what is far away is read from front to back
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

// behindEach tells for each of the entries how many bytes of others lie right behind it.
func behindEach(entries []Entry) []int64 {
	behind := make([]int64, len(entries))
	for i := len(entries) - 2; i >= 0; i-- {
		if next := entries[i+1]; entries[i].Offset+entries[i].Length == next.Offset {
			behind[i] = next.Length + behind[i+1]
		}
	}
	return behind
}

// contentFor opens an entry that is about to be extracted, and others behind it. What a link is to may have been extracted
// before: then it is not read, or fetched, again.
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

// extracted opens a file below root, if it is the one of an entry.
func extracted(root *os.Root, e Entry) *os.File {
	f, err := regularfile.OpenIn(root, filepath.FromSlash(e.Path))
	if err != nil {
		return nil
	}
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err == nil && n == e.Size && hex.EncodeToString(sum.Sum(nil)) == e.SHA256 {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			return f
		}
	}
	_ = f.Close()
	return nil
}

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
	temp := name + ".sealift-new"
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

// Verify reads every entry and reports all that are not what the index says. Of a bundle it also reports packages that are
// not what their own indexes say. What the archive leaves out is read where WithBase says that it is.
func (a *Archive) Verify(ctx context.Context) error {
	if err := a.CheckBase(); err != nil {
		return err
	}
	return a.verify(ctx, func(Entry) bool { return true })
}

// VerifyHere does so for what the archive itself has.
func (a *Archive) VerifyHere(ctx context.Context) error {
	return a.verify(ctx, func(e Entry) bool { return e.Encoding != InBase })
}

func (a *Archive) verify(ctx context.Context, wanted func(Entry) bool) error {
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
	_ = group.Wait() // all errors count, in the order of the archive
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
	if e.Encoding == Link && a.unpacked == nil { // what it links to is an entry, too, and is read there
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
