// Package history keeps the results of tests in a store: a folder, or a bucket. Another machine reuses results with the same
// input, and a run is compared with earlier ones.
//
//	tests/DIGEST/ATTEMPT.tar.gz   the folder of one attempt: its result, its logs, its support bundles
//	runs/TIME-DIGEST.json         how all tests of one run ended
package history

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/report"
)

// The most that is read of the store, in bytes: of a run, and of one attempt when it is unpacked.
const (
	maxRun     = 64 << 20
	maxAttempt = 2 << 30
)

// History is a store with results.
type History struct{ Store store.Store }

// Run has the outcomes of one run.
type Run struct {
	Began time.Time `json:"began"`
	Tests []Test    `json:"tests"`
}

// Test is the result of one test on one system.
type Test struct {
	Test     string            `json:"test"`
	System   string            `json:"system"`
	Verdict  report.Verdict    `json:"verdict"`
	Rate     string            `json:"rate,omitempty"` // such as "2 of 3 passed"
	Seconds  report.Seconds    `json:"seconds"`
	Digest   string            `json:"digest,omitempty"` // of all that went in
	Packages map[string]string `json:"packages,omitempty"`
}

func attemptKey(digest string, attempt int) string {
	return fmt.Sprintf("tests/%s/%d.tar.gz", digest, attempt)
}

// Save stores one attempt with the files of its folder.
func (h History) Save(ctx context.Context, r report.Result, dir string) error {
	packed, err := os.CreateTemp("", "sealift-attempt-*")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(packed.Close(), os.Remove(packed.Name())) }()
	if err := pack(packed, dir); err != nil {
		return fmt.Errorf("pack the result of %s: %w", r.Test, err)
	}
	info, err := packed.Stat()
	if err != nil {
		return err
	}
	value, err := store.Sum(ctx, packed, info.Size())
	if err == nil {
		_, err = h.Store.Put(ctx, attemptKey(r.Digest, r.Attempt), value)
	}
	if err != nil {
		return fmt.Errorf("store the result of %s: %w", r.Test, err)
	}
	return nil
}

// pack writes the regular files of a folder as a tar archive.
func pack(to io.Writer, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(to)
	archive := tar.NewWriter(zip)
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		if err := packFile(archive, filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}

func packFile(archive *tar.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: 0o644, Size: info.Size(), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.CopyN(archive, f, info.Size())
	return err
}

// Load unpacks an attempt that had this input into a folder, which it replaces. If there is none, it returns nil.
func (h History) Load(ctx context.Context, digest string, attempt int, dir string) (*report.Result, error) {
	value, err := h.Store.Get(ctx, attemptKey(digest, attempt))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for an earlier result: %w", err)
	}
	defer value.Close()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	if err := unpack(io.NewSectionReader(value, 0, value.Size()), dir); err != nil {
		return nil, errors.Join(fmt.Errorf("unpack an earlier result, %s: %w; --again all replaces it", attemptKey(digest, attempt), err), os.RemoveAll(dir))
	}
	r, err := report.ReadResult(dir)
	if err != nil || r == nil || r.Digest != digest || r.Attempt != attempt {
		return nil, errors.Join(fmt.Errorf("%s in the store is damaged or of another test; --again all replaces it", attemptKey(digest, attempt)), err, os.RemoveAll(dir))
	}
	r.Machines = nil // they belong to another machine
	return r, nil
}

// unpack writes the files of an archive into a folder. A file at another path is an error.
func unpack(from io.Reader, dir string) error {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(io.LimitReader(zip, maxAttempt))
	left := int64(maxAttempt) // a sparse entry has more than the archive inflates to
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || header.Name != filepath.Base(header.Name) || header.Name == ".." {
			return fmt.Errorf("%q is not a file of a result", header.Name)
		}
		if left -= header.Size; left < 0 {
			return fmt.Errorf("it unpacks to more than %d bytes", int64(maxAttempt))
		}
		f, err := root.OpenFile(header.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, archive)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}

// Add stores how the tests of a run ended.
func (h History) Add(ctx context.Context, began time.Time, cells []report.Cell) error {
	run := Run{Began: began.UTC()}
	for _, c := range cells {
		t := Test{Test: c.Test, System: c.System, Verdict: c.Verdict, Rate: c.Rate(), Seconds: c.Took()}
		for _, a := range c.Attempts {
			t.Digest, t.Packages = a.Digest, a.Packages
		}
		run.Tests = append(run.Tests, t)
	}
	data, err := json.Marshal(run)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	key := "runs/" + run.Began.Format("20060102T150405.000Z") + "-" + hex.EncodeToString(sum[:4]) + ".json"
	if _, err := h.Store.Put(ctx, key, store.Bytes(data)); err != nil {
		return fmt.Errorf("store the results of the run: %w", err)
	}
	return nil
}

// Runs returns the newest runs, the oldest of them first.
func (h History) Runs(ctx context.Context, most int) ([]Run, error) {
	list, err := h.Store.List(ctx, "runs/")
	if err != nil {
		return nil, fmt.Errorf("list earlier runs: %w", err)
	}
	list = slices.DeleteFunc(list, func(i store.Info) bool { return !strings.HasSuffix(i.Key, ".json") })
	var runs []Run
	for _, info := range list[max(0, len(list)-most):] {
		run, err := h.run(ctx, info.Key)
		if err != nil {
			return nil, fmt.Errorf("read the run %s: %w", info.Key, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func (h History) run(ctx context.Context, key string) (run Run, err error) {
	value, err := h.Store.Get(ctx, key)
	if err != nil {
		return run, err
	}
	defer value.Close()
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.NewSectionReader(value, 0, min(value.Size(), maxRun))); err != nil {
		return run, err
	}
	return run, json.Unmarshal(data.Bytes(), &run)
}

// Past is the data of earlier runs for a report.
func Past(runs []Run) report.Past {
	past := report.Past{}
	for _, run := range runs {
		for _, t := range run.Tests {
			if t.Verdict == report.Skipped {
				continue
			}
			key := report.PastKey(t.Test, t.System)
			past[key] = append(past[key], report.Earlier{Began: run.Began, Verdict: t.Verdict, Seconds: t.Seconds, Digest: t.Digest, Packages: t.Packages})
		}
	}
	return past
}
