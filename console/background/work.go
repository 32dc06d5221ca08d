package background

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/console/jsonfile"
	"github.com/sealift/sealift/internal/plaintext"
)

const (
	// maxProgress is the maximum length of a progress, in bytes.
	maxProgress = 4 << 20
	// workTime is the timeout of a change. An upgrade of a large cluster takes hours.
	workTime = 48 * time.Hour
)

// errNothing means that there is no request that has not been run.
var errNothing = errors.New("there is nothing to do: the console starts this, once for each change that a person starts")

// Worker runs the change that the console has requested.
type Worker struct {
	Dir string
	// Run runs a sealift to its end. Both outputs are for people.
	Run func(ctx context.Context, words []string, out, errOut io.Writer) error
	// Ended is called at the end.
	Ended func(State) error
	Now   func() time.Time
}

// Work runs the change to its end. Its error is that of this program, and not of the change.
func (w Worker) Work(ctx context.Context) (err error) {
	s := State{}
	if err := jsonfile.Read(filepath.Join(w.Dir, requestName), &s.Request); errors.Is(err, fs.ErrNotExist) {
		return errNothing
	} else if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(w.Dir, resultName)); err == nil {
		return errNothing
	}
	f, err := os.OpenFile(filepath.Join(w.Dir, progressName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	progress := plaintext.NewWriter(&capped{to: f, room: maxProgress})
	failed := w.Run(ctx, s.Words, progress, progress)
	err = errors.Join(progress.Close(), f.Close())
	s.Ended, s.Failure = w.Now().UTC(), failureOf(ctx, failed)
	return errors.Join(err, jsonfile.Write(filepath.Join(w.Dir, resultName), result{s.Ended, s.Failure}), w.Ended(s))
}

func failureOf(ctx context.Context, err error) string {
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return ""
	case ctx.Err() != nil:
		return "it was stopped"
	case exited:
		return fmt.Sprintf("failed with exit code %d", exit.ExitCode())
	}
	return err.Error()
}

// capped drops what exceeds its room.
type capped struct {
	to   io.Writer
	room int
}

func (c *capped) Write(p []byte) (int, error) {
	kept := p[:min(len(p), c.room)]
	c.room -= len(kept)
	if _, err := c.to.Write(kept); err != nil {
		return 0, err
	}
	return len(p), nil
}
