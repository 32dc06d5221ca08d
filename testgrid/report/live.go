package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/filelock"
)

// planName is the file with all that a run does.
const planName = "plan.json"

// lockName is the file that a run keeps locked while it works.
const lockName = ".lock"

// Lock makes the folder if necessary, and waits until no other run works on it.
func (f Folder) Lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(f.Path, 0o755); err != nil {
		return nil, err
	}
	if unlock, err = filelock.WaitFile(ctx, filepath.Join(f.Path, lockName)); err != nil {
		return nil, fmt.Errorf("wait for another run into %s: %w", f.Path, err)
	}
	return unlock, nil
}

// Plan writes the tests of a run, in this order, so that the live pages also show tests that have not begun.
func (f Folder) Plan(results []Result) error {
	data, err := json.Marshal(results)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(f.Path, planName), data)
}

// Read returns all current results of the folder: those of the plan in its order, then the others. A test that a killed run has
// left is waiting.
func (f Folder) Read() ([]Result, error) {
	var all []Result
	data, err := os.ReadFile(filepath.Join(f.Path, planName))
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", planName, err)
	}
	busy, err := f.busy()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i, planned := range all {
		dir := f.Dir(planned.Test, planned.System, planned.Attempt)
		known[dir] = true
		all[i].Verdict = Waiting
		now, err := attempt(dir, busy)
		if err != nil {
			return nil, err
		}
		if now != nil {
			all[i] = *now
		}
	}
	others, err := filepath.Glob(filepath.Join(f.Path, "results", "*", "*", "*", resultName))
	if err != nil {
		return nil, err
	}
	for _, path := range others {
		if known[filepath.Dir(path)] {
			continue
		}
		now, err := attempt(filepath.Dir(path), busy)
		if err != nil {
			return nil, err
		}
		if now != nil {
			all = append(all, *now)
		}
	}
	return all, nil
}

// attempt reads the progress of an attempt, or returns nil. A test that runs again has both files.
func attempt(dir string, busy bool) (*Result, error) {
	if busy {
		if running, err := load(filepath.Join(dir, runningName)); running != nil || err != nil {
			return running, err
		}
	}
	return load(filepath.Join(dir, resultName))
}

// busy reports whether a run works on the folder.
func (f Folder) busy() (bool, error) { return filelock.IsFileLocked(filepath.Join(f.Path, lockName)) }
