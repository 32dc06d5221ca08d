package background_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/console/background"
)

// unit stands for the unit of systemd: it runs a Worker in this process.
type unit struct {
	runner background.Runner
	worker background.Worker
	active bool
	ended  []background.State
}

func newUnit(t *testing.T, script string) *unit {
	t.Helper()
	u := &unit{}
	dir := filepath.Join(t.TempDir(), "background")
	u.runner = background.Runner{Dir: dir, Start: func(context.Context) error { u.active = true; return nil }, Active: func(context.Context) (bool, error) { return u.active, nil }}
	u.worker = background.Worker{Dir: dir, Now: time.Now,
		Run: func(ctx context.Context, words []string, out, errOut io.Writer) error {
			cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sealift"}, words...)...)
			cmd.Stdout, cmd.Stderr = out, errOut
			return cmd.Run()
		},
		Ended: func(s background.State) error { u.ended = append(u.ended, s); return nil },
	}
	return u
}

func (u *unit) begin(t *testing.T) error {
	return u.runner.Begin(t.Context(), background.Request{Action: "upgrade-start", Command: "sudo sealift upgrade", Words: []string{"upgrade", "--yes"}, Who: "jane", Began: time.Now()}, func() error { return nil })
}

func (u *unit) state(t *testing.T) background.State {
	t.Helper()
	s, err := u.runner.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChangeRunsOutsideOfTheConsole(t *testing.T) {
	u := newUnit(t, `echo plan; echo "node $1 $2" >&2; printf '\033]0;title\007' >&2; exit 3`)
	if s := u.state(t); s.Action != "" || s.Running {
		t.Errorf("before the first one: %+v", s)
	}
	if err := u.begin(t); err != nil {
		t.Fatal(err)
	}
	if s := u.state(t); !s.Running || s.Who != "jane" {
		t.Errorf("while it runs: %+v", s)
	}
	if err := u.begin(t); !errors.Is(err, background.ErrBusy) || !strings.Contains(err.Error(), "jane has started sudo sealift upgrade") {
		t.Errorf("a second one: %v", err)
	}
	if err := u.worker.Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := u.state(t)
	if s.Running || s.Failure != "failed with exit code 3" || s.Ended.IsZero() || !strings.Contains(s.Progress, "node upgrade --yes\n") || strings.ContainsAny(s.Progress, "\x1b\x07") || !strings.HasPrefix(s.Progress, "plan\n") {
		t.Errorf("at its end: %+v", s)
	}
	if len(u.ended) != 1 || u.ended[0].Failure != s.Failure || u.ended[0].Who != "jane" {
		t.Errorf("the audit was told %+v", u.ended)
	}
	if err := u.worker.Work(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to do") {
		t.Errorf("the unit starts again: %v", err)
	}
	u.active = false
	if err := u.begin(t); err != nil {
		t.Fatal(err)
	}
	if s := u.state(t); !s.Running || s.Progress != "" || s.Failure != "" {
		t.Errorf("the next one: %+v", s)
	}
}

func TestInterruptedChangeIsReported(t *testing.T) {
	u := newUnit(t, "exit 0")
	if err := u.begin(t); err != nil {
		t.Fatal(err)
	}
	u.active = false // the node restarted
	if s := u.state(t); s.Running || !strings.Contains(s.Failure, "interrupted") || !s.Ended.IsZero() {
		t.Errorf("got %+v", s)
	}
	if err := u.begin(t); err != nil {
		t.Errorf("start it again: %v", err)
	}
}

func TestUnrecordedChangeDoesNotStart(t *testing.T) {
	u := newUnit(t, "exit 0")
	full := errors.New("no space left")
	if err := u.runner.Begin(t.Context(), background.Request{Action: "a"}, func() error { return full }); !errors.Is(err, full) || u.active {
		t.Errorf("without an audit: %v, %t", err, u.active)
	}
	u.runner.Start = func(context.Context) error { return errors.New("unit not found") }
	if err := u.begin(t); err == nil {
		t.Error("without a unit")
	}
	if s := u.state(t); s.Running || s.Failure != "it could not be started" {
		t.Errorf("without a unit: %+v", s)
	}
}

func TestProgressIsBounded(t *testing.T) {
	u := newUnit(t, `head -c 6000000 /dev/zero | tr '\0' x >&2; echo end >&2`)
	if err := u.begin(t); err != nil {
		t.Fatal(err)
	}
	if err := u.worker.Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(u.runner.Dir, "progress.txt")); err != nil || info.Size() > 4<<20 {
		t.Errorf("the progress has %d bytes, %v", info.Size(), err)
	}
	if s := u.state(t); len(s.Progress) > 32<<10 || s.Failure != "" {
		t.Errorf("a page gets %d bytes; %s", len(s.Progress), s.Failure)
	}
}
