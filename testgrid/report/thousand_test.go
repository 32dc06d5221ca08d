package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
	"github.com/sealift/sealift/testgrid/report"
)

// most is how long a report of a thousand results may take: to be written, and to be shown.
const most = 2 * time.Second

// thousand saves the results of 250 tests on four systems. Each has a log.
func thousand(t *testing.T) (report.Folder, []report.Result) {
	t.Helper()
	f := report.Folder{Path: t.TempDir()}
	var many []report.Result
	for i := range 1000 {
		r := results()[i%2]
		r.Test, r.System = fmt.Sprintf("test-%d", i/4), fmt.Sprintf("system-%d", i%4)
		many = append(many, r)
		dir := f.Dir(r.Test, r.System, r.Attempt)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "install.log"), []byte("a line of the log\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f, many
}

// processorTime is the CPU time of this process so far. Unlike the time on the wall, it does not depend on what else runs.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestThousandResultsLoadInTwoSeconds writes them into an empty folder and opens the matrix in a browser. The best of three
// counts, since other programs use the machine, too.
func TestThousandResultsLoadInTwoSeconds(t *testing.T) {
	f, many := thousand(t)
	best, wall := time.Hour, time.Hour
	for range 3 {
		if err := os.RemoveAll(filepath.Join(f.Path, "index.html")); err != nil {
			t.Fatal(err)
		}
		for i := range many {
			many[i].Reason += "." // each page differs from the one on disk
		}
		before, began := processorTime(t), time.Now()
		if err := f.Write(many); err != nil {
			t.Fatal(err)
		}
		best, wall = min(best, processorTime(t)-before), min(wall, time.Since(began))
	}
	t.Logf("1,000 results and their pages are written in %s of the processor, %s on the wall", best, wall)
	if best > most {
		t.Errorf("1,000 results take %s of the processor to write, more than %s", best, most)
	}

	ctx := browser.ForTest(t)
	shown := time.Hour
	for range 3 {
		var milliseconds float64
		var rows int
		if err := chromedp.Run(ctx, chromedp.Navigate("file://"+filepath.Join(f.Path, "index.html")),
			chromedp.Evaluate(`performance.getEntriesByType("navigation")[0].duration`, &milliseconds),
			chromedp.Evaluate(`document.querySelectorAll("td a.verdict").length`, &rows)); err != nil || rows != len(many) {
			t.Fatalf("%d results are on the page: %v", rows, err)
		}
		shown = min(shown, time.Duration(milliseconds*float64(time.Millisecond)))
	}
	t.Logf("Chromium shows the matrix in %s", shown)
	if shown > most {
		t.Errorf("Chromium takes %s to show the matrix, more than %s", shown, most)
	}
}
