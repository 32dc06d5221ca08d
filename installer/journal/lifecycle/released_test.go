package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/testing/released"
)

// TestJournalsOfReleasesAreRead: an install begun by an older sealift continues with this one.
func TestJournalsOfReleasesAreRead(t *testing.T) {
	released.Test(t, released.Format{Name: "journal.jsonl", Write: writeJournal, Read: func(t *testing.T, file string) {
		dir := t.TempDir()
		if err := os.WriteFile(lifecycle.JournalFile(dir), released.Data(t, file), 0o600); err != nil {
			t.Fatal(err)
		}
		j := journal(t, dir)
		init, ok := j.Last("kubernetes/init")
		if !ok || init.Operation != lifecycle.Installing || init.Phase != lifecycle.Install || init.AddOn != "kubernetes" || init.Options != "fedcba" || init.Duration <= 0 || init.Time.IsZero() {
			t.Errorf("kubernetes/init: %+v", init)
		}
		if rec, ok := j.Finished(lifecycle.Step{ID: "kubernetes/init", Inputs: "012345"}); !ok || rec.State["NODE"] != "demo" {
			t.Errorf("a finished step runs again: %v %+v", ok, rec)
		}
		if _, ok := j.Finished(lifecycle.Step{ID: "kubernetes/init", Inputs: "other"}); ok {
			t.Error("a step with other inputs does not run again")
		}
		if open := j.Open(); !slices.Equal(open, []string{"metrics-server/install"}) {
			t.Errorf("steps that a kill left open: %v", open)
		}
		var failed []lifecycle.Record
		for _, rec := range j.Records() {
			if rec.Outcome == lifecycle.Failed {
				failed = append(failed, rec)
			}
		}
		if len(failed) != 1 || failed[0].Step != "flannel/install" || failed[0].Error != "exit status 1" {
			t.Errorf("what failed: %+v", failed)
		}
		if _, ok := j.Last("flannel/install"); !ok {
			t.Error("a step that failed, and then succeeded, is not finished")
		}
	}})
}

// writeJournal runs an install that fails once, resumes, and is killed.
func writeJournal(t *testing.T, file string) {
	dir := t.TempDir()
	j := journal(t, dir)
	tries := 0
	step := func(id, addOn string, phase lifecycle.Phase, run func() (lifecycle.State, error)) lifecycle.Step {
		return lifecycle.Step{ID: id, Phase: phase, AddOn: addOn, Inputs: "012345", Options: "fedcba", Timeout: time.Minute,
			Run: func(context.Context) (lifecycle.State, error) { return run() }, Restore: func(context.Context, lifecycle.State) error { return nil }}
	}
	plan := lifecycle.Plan{
		step("node/packages", "", lifecycle.PreInit, func() (lifecycle.State, error) { return nil, nil }),
		step("kubernetes/init", "kubernetes", lifecycle.Install, func() (lifecycle.State, error) {
			time.Sleep(time.Millisecond)
			return lifecycle.State{"NODE": "demo"}, nil
		}),
		step("flannel/install", "flannel", lifecycle.Install, func() (lifecycle.State, error) {
			if tries++; tries == 1 {
				return nil, errors.New("exit status 1")
			}
			return nil, nil
		}),
		step("metrics-server/install", "metrics-server", lifecycle.Install, func() (lifecycle.State, error) {
			released.Put(t, file, released.Data(t, lifecycle.JournalFile(dir))) // as a kill leaves it
			return nil, nil
		}),
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan, j, quiet); err == nil {
		t.Fatal("no step failed")
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan, j, quiet); err != nil {
		t.Fatal(err)
	}
}
