package testgrid

import (
	"strings"
	"testing"
	"time"

	"github.com/vbauerster/mpb/v8"

	"github.com/sealift/sealift/internal/tail"
	"github.com/sealift/sealift/testgrid/report"
)

// TestTerminalShowsTestProgress draws bars while one test has ended, one runs and one waits.
func TestTerminalShowsTestProgress(t *testing.T) {
	t.Parallel()
	folder := report.Folder{Path: t.TempDir()}
	unlock, err := folder.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	var all []report.Result
	for _, name := range []string{"one", "two", "three"} {
		all = append(all, report.Result{Test: name, System: "a", Attempt: 1})
	}
	if err := folder.Plan(all); err != nil {
		t.Fatal(err)
	}
	all[0].Verdict = report.Passed
	if err := folder.Save(all[0]); err != nil {
		t.Fatal(err)
	}
	all[1].Steps = []report.Step{{Name: "install", Verdict: report.Running}}
	if err := folder.Note(all[1]); err != nil {
		t.Fatal(err)
	}
	var out tail.Buffer
	line, end := watchBars(t.Context(), &out, folder, mpb.WithAutoRefresh())
	line("two on a: runs")
	shows := func(wanted ...string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			text := out.String()
			missing := ""
			for _, want := range wanted {
				if !strings.Contains(text, want) {
					missing = want
				}
			}
			if missing == "" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the terminal lacks %q:\n%s", missing, text)
			}
		}
	}
	shows("1 of 3 tests", "two on a: install", "two on a: runs\n")
	all[1].Verdict = report.Failed
	if err := folder.Save(all[1]); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	shows("2 of 3 tests")
	end()
	if text := out.Last(1, 1000); strings.Contains(text, "two on a") {
		t.Errorf("a test that has ended is still there: %q", text)
	}
}
