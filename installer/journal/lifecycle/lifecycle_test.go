package lifecycle_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/regularfile"
	_ "github.com/sealift/sealift/internal/testing/usualhost"
)

func journal(t *testing.T, dir string) *lifecycle.Journal {
	t.Helper()
	j, err := lifecycle.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// plan has three steps that note that they ran; the named one fails.
func plan(ran *[]string, failing string) lifecycle.Plan {
	var p lifecycle.Plan
	for _, id := range []string{"a", "b", "c"} {
		p = append(p, lifecycle.Step{
			ID: id, Inputs: "1", Timeout: time.Minute,
			Run: func(context.Context) (lifecycle.State, error) {
				*ran = append(*ran, id)
				if id == failing {
					return nil, errors.New("broken")
				}
				return lifecycle.State{"from": id}, nil
			},
			Restore: func(_ context.Context, s lifecycle.State) error {
				*ran = append(*ran, "restored "+s["from"])
				return nil
			},
		})
	}
	return p
}

func quiet(lifecycle.Event) {}

func TestRunResumesWhereItStopped(t *testing.T) {
	dir := t.TempDir()
	var ran []string
	j := journal(t, dir)
	n, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, "b"), j, quiet)
	var failed *lifecycle.StepError
	if !errors.As(err, &failed) || failed.Step.ID != "b" || n != 2 {
		t.Fatalf("ran %d, error %v", n, err)
	}
	_ = j.Close()
	ran = nil
	j = journal(t, dir)
	if n, err = lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), j, quiet); err != nil || n != 2 {
		t.Fatalf("ran %d, error %v", n, err)
	}
	if want := []string{"restored a", "b", "c"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if pending := plan(&ran, "").Pending(j); len(pending) != 0 {
		t.Errorf("%d steps pending after all ran", len(pending))
	}
}

func TestChangedInputsRerunStep(t *testing.T) {
	j := journal(t, t.TempDir())
	var ran []string
	p := plan(&ran, "")
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, j, quiet); err != nil {
		t.Fatal(err)
	}
	ran = nil
	p[1].Inputs = "2"
	if n, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, j, quiet); err != nil || n != 1 {
		t.Fatalf("ran %d, error %v", n, err)
	}
}

func TestRecordsNameTheirOperation(t *testing.T) {
	dir := t.TempDir()
	old := `{"time":"2026-01-01T00:00:00Z","step":"a","phase":"install","inputs":"1","outcome":"started"}
{"time":"2026-01-01T00:00:01Z","step":"a","phase":"install","inputs":"1","outcome":"finished"}
`
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	j := journal(t, dir)
	p := lifecycle.Plan{
		{ID: "a", Inputs: "1", Timeout: time.Minute, Run: func(context.Context) (lifecycle.State, error) { return nil, errors.New("ran again") }},
		{ID: "b", Inputs: "1", Options: "2", Timeout: time.Minute, Run: func(context.Context) (lifecycle.State, error) { return nil, nil }},
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Upgrading, p, j, quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Resetting, lifecycle.Plan{{ID: "c", Timeout: time.Minute, Run: p[1].Run}}, j, quiet); err != nil {
		t.Fatal(err)
	}
	records, err := lifecycle.ReadJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rec := range records {
		got = append(got, strings.Join([]string{string(rec.Operation), rec.Step, string(rec.Outcome), rec.Options}, " "))
	}
	if want := []string{" a started ", " a finished ", "upgrade b started 2", "upgrade b finished 2", "reset c started ", "reset c finished "}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestUndoneStepReruns(t *testing.T) {
	j := journal(t, t.TempDir())
	var ran []string
	p := plan(&ran, "")
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, j, quiet); err != nil {
		t.Fatal(err)
	}
	ran = nil
	p[1].Again = true
	if pending := p.Pending(j); len(pending) != 1 {
		t.Errorf("%d steps pending", len(pending))
	}
	if n, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, j, quiet); err != nil || n != 1 || !slices.Contains(ran, "b") {
		t.Fatalf("ran %d, %v, error %v", n, ran, err)
	}
}

// graph has steps a, b, c and d; b runs concurrently and d comes after it. Each is done when its channel is closed, or ends
// with its context.
func graph(gates map[string]chan struct{}) lifecycle.Plan {
	var p lifecycle.Plan
	for _, id := range []string{"a", "b", "c", "d"} {
		p = append(p, lifecycle.Step{ID: id, Timeout: time.Minute, Beside: id == "b", Run: func(ctx context.Context) (lifecycle.State, error) {
			select {
			case <-gates[id]:
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
	}
	p[3].After = []string{"b"}
	return p
}

func open() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestIndependentStepsRunConcurrently(t *testing.T) {
	gates := map[string]chan struct{}{"a": open(), "b": make(chan struct{}), "c": make(chan struct{}), "d": open()}
	var told []string
	n, err := lifecycle.Run(t.Context(), lifecycle.Installing, graph(gates), journal(t, t.TempDir()), func(e lifecycle.Event) {
		told = append(told, e.Step.ID+" "+string(e.Outcome))
		switch { // c ends only when both b and c have begun, and b only when c has ended
		case slices.Contains(told, "b started") && slices.Contains(told, "c started") && len(told) == 4:
			close(gates["c"])
		case told[len(told)-1] == "c finished":
			close(gates["b"])
		}
	})
	if err != nil || n != 4 {
		t.Fatalf("ran %d, error %v, told %v", n, err, told)
	}
	if want := []string{"c finished", "b finished", "d started", "d finished"}; !slices.Equal(told[4:], want) {
		t.Errorf("told %v", told)
	}
}

func TestFailureStopsConcurrentSteps(t *testing.T) {
	for _, failing := range []string{"b", "c"} {
		t.Run(failing, func(t *testing.T) {
			dir := t.TempDir()
			p := graph(map[string]chan struct{}{"a": open(), "d": open()})
			both := make(chan struct{})
			for i := range p {
				if p[i].ID == failing {
					p[i].Run = func(context.Context) (lifecycle.State, error) { <-both; return nil, errors.New("broken") }
				}
			}
			began := 0
			_, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, journal(t, dir), func(e lifecycle.Event) {
				if e.Outcome == lifecycle.Started {
					if began++; began == 3 {
						close(both)
					}
				}
			})
			var failed *lifecycle.StepError
			if !errors.As(err, &failed) || failed.Step.ID != failing || strings.Contains(err.Error(), "canceled") {
				t.Errorf("error %v", err)
			}
			records, err := lifecycle.ReadJournal(dir)
			if err != nil {
				t.Fatal(err)
			}
			outcomes := map[string]lifecycle.Outcome{}
			for _, r := range records {
				outcomes[r.Step] = r.Outcome
			}
			want := map[string]lifecycle.Outcome{"a": lifecycle.Finished, "b": lifecycle.Stopped, "c": lifecycle.Stopped}
			if want[failing] = lifecycle.Failed; !maps.Equal(outcomes, want) {
				t.Errorf("outcomes %v, want %v", outcomes, want)
			}
			if failure, ok := lifecycle.LastFailure(records); !ok || failure.Step != failing {
				t.Errorf("the failure is told as %v", failure)
			}
		})
	}
}

func TestInterruptedRunIsRecorded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := graph(map[string]chan struct{}{"a": open(), "c": open(), "d": open()})
	_, err := lifecycle.Run(ctx, lifecycle.Installing, p, journal(t, t.TempDir()), func(e lifecycle.Event) {
		if e.Step.ID == "c" && e.Outcome == lifecycle.Finished {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOpenStepsAreReportedOnce(t *testing.T) {
	dir := t.TempDir()
	lines := `{"step":"a","outcome":"finished"}` + "\n" + `{"step":"b","outcome":"started"}` + "\n" + `{"step":"c","outcome":"started"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	j := journal(t, dir)
	if open := j.Open(); !slices.Equal(open, []string{"b", "c"}) {
		t.Errorf("open are %v", open)
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, nil, j, quiet); err != nil { // of a plan that no longer has either
		t.Fatal(err)
	}
	if open := j.Open(); len(open) > 0 {
		t.Errorf("open are still %v", open)
	}
}

func TestStepCannotWaitForLaterStep(t *testing.T) {
	p := graph(nil)
	p[0].After = []string{"d"}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, journal(t, t.TempDir()), quiet); err == nil || !strings.Contains(err.Error(), "step a comes after d") {
		t.Errorf("got %v", err)
	}
}

func TestEveryStepTimesOut(t *testing.T) {
	step := lifecycle.Step{ID: "slow", Timeout: time.Millisecond, Fixed: true, Run: func(ctx context.Context) (lifecycle.State, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	_, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{step}, journal(t, t.TempDir()), quiet)
	if err == nil || !strings.Contains(err.Error(), "not done after 1ms") {
		t.Errorf("got %v", err)
	}
	var left time.Duration
	step = lifecycle.Step{ID: "patient", Timeout: time.Hour, Run: func(ctx context.Context) (lifecycle.State, error) {
		end, _ := ctx.Deadline()
		left = time.Until(end)
		return nil, nil
	}}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{step}, journal(t, t.TempDir()), quiet); err != nil {
		t.Fatal(err)
	}
	if want := speed.Stretch(time.Hour); left < want-time.Minute {
		t.Errorf("a step of an hour gets %v on this host, want at least %v", left, want)
	}
}

func TestTruncatedRecordIsDropped(t *testing.T) {
	dir := t.TempDir()
	var ran []string
	j := journal(t, dir)
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), j, quiet); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	name := filepath.Join(dir, "journal.jsonl")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, int64(len(data)-7)); err != nil {
		t.Fatal(err)
	}
	ran = nil
	j = journal(t, dir)
	if info, err := os.Stat(name); err != nil || info.Size() != int64(len(data)-7) {
		t.Errorf("opening the journal changed it: %v, %v", info, err)
	}
	if n, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), j, quiet); err != nil || n != 1 {
		t.Fatalf("ran %d, error %v", n, err)
	}
	if records, err := lifecycle.ReadJournal(dir); err != nil || records[len(records)-1].Outcome != lifecycle.Finished {
		t.Errorf("journal after recovery: %v, %v", records, err)
	}
}

func TestDamagedJournalIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte("{}\n{\"step\":\"a\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, opened := lifecycle.OpenJournal(dir)
	_, read := lifecycle.ReadJournal(dir)
	for _, err := range []error{opened, read} {
		if err == nil || !strings.Contains(err.Error(), dir+"/journal.jsonl: line 1") || !strings.Contains(err.Error(), "sealift reset") {
			t.Errorf("got %v", err)
		}
	}
}

func TestOneRunAtATime(t *testing.T) {
	dir := t.TempDir()
	first, tooLate := journal(t, dir), journal(t, dir)
	if err := first.Begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := lifecycle.OpenJournal(dir); !errors.Is(err, lifecycle.ErrBusy) {
		t.Errorf("got %v", err)
	}
	var ran []string
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), tooLate, quiet); !errors.Is(err, lifecycle.ErrBusy) || len(ran) > 0 {
		t.Errorf("got %v after %v", err, ran)
	}
}

func TestPlanMadeBeforeAnotherRunIsNotRun(t *testing.T) {
	dir := t.TempDir()
	first, tooLate := journal(t, dir), journal(t, dir)
	var ran []string
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), first, quiet); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), tooLate, quiet); err == nil || len(ran) != 3 {
		t.Errorf("got %v after %v", err, ran)
	}
}

func TestReadingJournalWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root", "state")
	var ran []string
	if pending := plan(&ran, "").Pending(journal(t, dir)); len(pending) != 3 {
		t.Errorf("%d steps pending", len(pending))
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyRootReadsJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := journal(t, dir).Begin(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "journal.jsonl": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// TestPipeAsStateDoesNotBlock uses a pipe in place of the journal, and of its lock.
func TestPipeAsStateDoesNotBlock(t *testing.T) {
	for _, name := range []string{"journal.jsonl", "lock"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := lifecycle.ReadJournal(dir)
				if name == "lock" && err == nil {
					err = regularfile.ErrNot // it is not read
				}
				lifecycle.Busy(dir)
				j, opened := lifecycle.OpenJournal(dir)
				done <- errors.Join(err, opened, j.Close())
			}()
			select {
			case err := <-done:
				if !errors.Is(err, regularfile.ErrNot) || strings.Count(err.Error(), regularfile.ErrNot.Error()) != 2 {
					t.Errorf("got %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("waits for a pipe")
			}
		})
	}
}
