package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/testing/isolation"
)

// The variables that make the test binary a program that runs a plan with its journal in a folder. It does not get further than
// to the last step, and waits there to be killed.
const (
	folderVariable = "LIFECYCLE_TEST_DIR"
	lastVariable   = "LIFECYCLE_TEST_LAST"
)

// steps are those of that program; each records that it ran.
var steps = []string{"a", "b", "c", "d"}

func TestMain(m *testing.M) {
	if dir := os.Getenv(folderVariable); dir != "" {
		program(dir)
	}
	os.Exit(m.Run())
}

func program(dir string) {
	j, err := lifecycle.OpenJournal(dir)
	if err != nil {
		panic(err)
	}
	var p lifecycle.Plan
	for _, id := range steps {
		p = append(p, lifecycle.Step{ID: id, Timeout: time.Minute, Run: func(context.Context) (lifecycle.State, error) {
			if id == os.Getenv(lastVariable) {
				time.Sleep(time.Minute)
			}
			return nil, appendTo(filepath.Join(dir, "ran"), id+" ")
		}})
	}
	if _, err := lifecycle.Run(context.Background(), lifecycle.Installing, p, j, quiet); err != nil {
		panic(err)
	}
	if os.Getenv(lastVariable) != "" {
		time.Sleep(time.Minute)
	}
	os.Exit(0)
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// TestRunKilledAfterAnyRecordResumes kills a program as soon as it has begun a step, the next one as soon as it has finished
// that step, and so on.
func TestRunKilledAfterAnyRecordResumes(t *testing.T) {
	dir := t.TempDir()
	for i, id := range steps {
		killed(t, dir, id, lifecycle.Started, id)
		killed(t, dir, id, lifecycle.Finished, append(steps, "none")[i+1])
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), folderVariable+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	records, err := lifecycle.ReadJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	var finished []string
	for _, rec := range records {
		if slices.Contains(finished, rec.Step) {
			t.Errorf("step %s is finished and %s again", rec.Step, rec.Outcome)
		}
		if rec.Outcome == lifecycle.Finished {
			finished = append(finished, rec.Step)
		}
	}
	if !slices.Equal(finished, steps) {
		t.Errorf("finished %v", finished)
	}
	data, err := os.ReadFile(filepath.Join(dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	if ran := slices.Compact(strings.Fields(string(data))); !slices.Equal(ran, steps) {
		t.Errorf("ran %v", ran)
	}
}

// killed runs the program, no further than to the last step, until its journal has a new record, and kills it.
func killed(t *testing.T, dir, step string, outcome lifecycle.Outcome, last string) {
	t.Helper()
	before, err := lifecycle.ReadJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), folderVariable+"="+dir, lastVariable+"="+last)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	is := func(rec lifecycle.Record) bool { return rec.Step == step && rec.Outcome == outcome }
	for end := time.Now().Add(time.Minute); ; {
		records, err := lifecycle.ReadJournal(dir)
		if err != nil || time.Now().After(end) {
			t.Fatalf("no record that step %s was %s: %v, %v", step, outcome, records, err)
		}
		if len(records) >= len(before) && slices.ContainsFunc(records[len(before):], is) {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

func TestRunResumesAfterFullDisk(t *testing.T) {
	d := isolation.NewDisk(t, 32<<20)
	j := journal(t, d.Path())
	var ran []string
	p := plan(&ran, "")
	var free func()
	work := p[1].Run
	p[1].Run = func(ctx context.Context) (lifecycle.State, error) {
		free = d.Fill()
		_, err := work(ctx)
		return lifecycle.State{"much": strings.Repeat("x", 1<<16)}, err
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, j, quiet); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "step b") {
		t.Errorf("without space: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	free()
	j = journal(t, d.Path())
	if open := j.Open(); !slices.Equal(open, []string{"b"}) {
		t.Errorf("open are %q", open)
	}
	ran = nil
	if n, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), j, quiet); err != nil || n != 2 || !slices.Equal(ran, []string{"restored a", "b", "c"}) {
		t.Errorf("with space: ran %d, %v, error %v", n, ran, err)
	}
}

func TestRecordsSurvivePowerLoss(t *testing.T) {
	d := isolation.NewDisk(t, 32<<20)
	dir := filepath.Join(d.Path(), "root", "state")
	j := journal(t, dir)
	var ran []string
	p := plan(&ran, "")
	work := p[2].Run
	p[2].Run = func(ctx context.Context) (lifecycle.State, error) {
		d.CutPower()
		return work(ctx)
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, p, j, quiet); err == nil {
		t.Error("a record could be written to a disk without power")
	}
	_ = j.Close()
	if err := d.Restore(); err != nil {
		t.Fatal(err)
	}
	j = journal(t, dir)
	if open := j.Open(); !slices.Equal(open, []string{"c"}) {
		t.Errorf("open are %q", open)
	}
	ran = nil
	if n, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan(&ran, ""), j, quiet); err != nil || n != 1 || !slices.Equal(ran, []string{"restored a", "restored b", "c"}) {
		t.Errorf("ran %d, %v, error %v", n, ran, err)
	}
}

// TestInterruptionIsReported ends a step as a signal does.
func TestInterruptionIsReported(t *testing.T) {
	dir := t.TempDir()
	ctx, interrupt := context.WithCancelCause(t.Context())
	p := lifecycle.Plan{{ID: "slow", Timeout: time.Minute, Run: func(ctx context.Context) (lifecycle.State, error) {
		interrupt(errors.New("interrupt signal received"))
		<-ctx.Done()
		return nil, errors.New("kubeadm init: signal: killed")
	}}}
	if _, err := lifecycle.Run(ctx, lifecycle.Installing, p, journal(t, dir), quiet); err == nil {
		t.Error("an interrupted run was well")
	}
	records, err := lifecycle.ReadJournal(dir)
	if err != nil || len(records) != 2 || records[1].Outcome != lifecycle.Failed || records[1].Error != "interrupt signal received: kubeadm init: signal: killed" {
		t.Errorf("%+v, %v", records, err)
	}
}
