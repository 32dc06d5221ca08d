// Package background runs a change of the whole cluster outside of the console: in a unit of systemd of its own, so that the change goes on
// while the console restarts or is replaced. One change runs at a time.
//
// The console writes a request and starts the unit; the unit runs Work, which leaves its progress and its result in the same folder. The
// package judges no rights, and no request: the words of a command come from package command.
package background

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sealift/sealift/console/jsonfile"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/regularfile"
)

// ErrBusy means that a change is running.
var ErrBusy = errors.New("wait until it ends")

// Request is a change to run.
type Request struct {
	Action  string    `json:"action"` // its name
	Title   string    `json:"title"`
	Command string    `json:"command"` // as a person types it
	Words   []string  `json:"words"`   // of sealift
	Bundle  string    `json:"bundle,omitempty"`
	Who     string    `json:"who"`
	Began   time.Time `json:"began"`
}

// result is the outcome of a change.
type result struct {
	Ended   time.Time `json:"ended"`
	Failure string    `json:"failure,omitempty"`
}

// State is the newest change.
type State struct {
	Request
	Running  bool
	Progress string    // what the command printed for people, at most its last 32 KiB
	Ended    time.Time // zero if it runs, or was interrupted
	Failure  string    // why it failed, "" if it did not
}

// The files of a change.
const (
	requestName  = "request.json"
	progressName = "progress.txt"
	resultName   = "result.json"
)

// maxShown is how much of the progress a State has, in bytes.
const maxShown = 32 << 10

// Runner starts changes.
type Runner struct {
	Dir string
	// Start starts the unit that runs Work, and returns when it runs.
	Start func(context.Context) error
	// Active reports whether the unit runs.
	Active func(context.Context) (bool, error)

	mu sync.Mutex
}

// Begin starts a change. before is called when it is certain that none runs: its error keeps the change from starting.
func (r *Runner) Begin(ctx context.Context, request Request, before func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, err := r.Read(ctx)
	if err != nil {
		return err
	}
	if last.Running {
		return fmt.Errorf("%s has started %s: %w", last.Who, last.Command, ErrBusy)
	}
	if err := before(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{resultName, progressName} {
		if err := atomicfile.Remove(filepath.Join(r.Dir, name)); err != nil {
			return err
		}
	}
	if err := jsonfile.Write(filepath.Join(r.Dir, requestName), request); err != nil {
		return err
	}
	if err := r.Start(ctx); err != nil {
		return errors.Join(err, jsonfile.Write(filepath.Join(r.Dir, resultName), result{Ended: request.Began, Failure: "it could not be started"}))
	}
	return nil
}

// Read returns the newest change. The zero State means that there was none.
func (r *Runner) Read(ctx context.Context) (s State, err error) {
	if err := jsonfile.Read(filepath.Join(r.Dir, requestName), &s.Request); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	} else if err != nil {
		return s, err
	}
	if s.Running, err = r.Active(ctx); err != nil { // before the result: the unit writes it and ends
		return s, err
	}
	var end result
	if err := jsonfile.Read(filepath.Join(r.Dir, resultName), &end); err == nil {
		s.Running, s.Ended, s.Failure = false, end.Ended, end.Failure
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	} else if !s.Running {
		s.Failure = "it was interrupted, as by a restart of this node"
	}
	s.Progress, err = tailOf(filepath.Join(r.Dir, progressName))
	return s, err
}

// tailOf reads the end of a file. A missing file is empty.
func tailOf(name string) (string, error) {
	f, err := regularfile.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	text := make([]byte, min(info.Size(), maxShown))
	n, err := f.ReadAt(text, info.Size()-int64(len(text)))
	return string(text[:n]), err
}
