package scenario_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/testgrid/scenario"
)

func TestAwaitSeesNewRecordsOnly(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	line := func(step, outcome string) string { return `{"step":"` + step + `","outcome":"` + outcome + "\"}\n" }
	if err := os.WriteFile(journal, []byte(line("a/b", "started")), 0o600); err != nil {
		t.Fatal(err)
	}
	await := func(step string) *exec.Cmd {
		script := strings.ReplaceAll(scenario.Await(step, "started", 2*time.Second), "/var/lib/sealift/state/journal.jsonl", journal)
		return exec.Command("bash", "-c", script)
	}
	write := func(lines string) {
		f, err := os.OpenFile(journal, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(lines)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := await("a/b").Run(); !errors.As(err, &exit) || exit.ExitCode() != scenario.NotRecorded {
		t.Errorf("an old record ends the wait: %v", err)
	}
	for _, row := range []struct {
		step, other string
		code        int
	}{{"a/b", "a/bc", scenario.NotRecorded}, {"c/d", "c/d", 0}} {
		cmd := await(row.step)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		for waits := true; waits; { // a record from before the script looks is an old one
			write(line(row.step, "finished") + line(row.other, "started"))
			select {
			case <-ended:
				waits = false
			case <-time.After(100 * time.Millisecond):
			}
		}
		if cmd.ProcessState.ExitCode() != row.code {
			t.Errorf("step %s, new record of %s: exit %d, want %d", row.step, row.other, cmd.ProcessState.ExitCode(), row.code)
		}
	}
}

func TestObservationsDescribeMachine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir() // instead of folders that may have gigabytes, or the caches of a home
	small := strings.NewReplacer("/usr/local", empty, " /root ", " "+empty+" ").Replace(scenario.StateScript)
	out, err := exec.Command("bash", "-c", small).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, kind := range []string{"package ", "file ", "content ", "name ", "link lo", "sysctl "} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, kind) }) {
			t.Errorf("no line begins with %q; %v", kind, err)
		}
	}
}

func TestUnexplainedDifferencesAreNamed(t *testing.T) {
	t.Parallel()
	got := scenario.Differences([]string{"a", "b"}, []string{"b", "c", "x /var/log/dpkg.log"}, scenario.Kept()...)
	if strings.Join(got, ",") != "+ c,- a" {
		t.Errorf("%q", got)
	}
}
