package testgrid_test

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/testgrid"
	"github.com/sealift/sealift/internal/tail"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/history"
	"github.com/sealift/sealift/testgrid/report"
)

// kept makes a report of a failed test on two systems, with machines that are this one.
func kept(t *testing.T) string {
	t.Helper()
	f := report.Folder{Path: t.TempDir()}
	for _, r := range []report.Result{
		{Test: "one", System: "a", Attempt: 1, Verdict: report.Failed, Machines: []report.Machine{{Name: "m-1", Enter: []string{"env", "NODE=1", "bash"}}, {Name: "m-2", Enter: []string{"env", "NODE=2", "bash"}}}},
		{Test: "one", System: "b", Attempt: 1, Verdict: report.Failed, Machines: []report.Machine{{Name: "m-3", Enter: []string{"env", "NODE=3", "bash"}}}},
		{Test: "gone", System: "a", Attempt: 1, Verdict: report.Failed},
	} {
		if err := f.Save(r); err != nil {
			t.Fatal(err)
		}
	}
	return f.Path
}

func TestEnterOpensShellOnTestHost(t *testing.T) {
	t.Parallel()
	out := kept(t)
	for behaviour, row := range map[string]struct {
		args []string
		code int
		says string
	}{
		"the first node":      {[]string{"one", "--system", "a"}, 42, "on node 1"},
		"another node":        {[]string{"one", "--system", "a", "--node", "2"}, 42, "on node 2"},
		"several systems":     {[]string{"one"}, app.ExitUsage, "choose with --system"},
		"no such node":        {[]string{"one", "--system", "b", "--node", "2"}, app.ExitUsage, "nodes 1 to 1"},
		"a test without any":  {[]string{"gone"}, app.ExitFailed, "--keep-failed"},
		"no such test":        {[]string{"three"}, app.ExitFailed, `no test "three"`},
		"a folder is missing": {[]string{"one", "--out", ""}, app.ExitUsage, "--out is empty"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"enter", "--out", out}, row.args...)
		code := app.Run(t.Context(), "sealift-testgrid", root, args, strings.NewReader("echo on node $NODE\nexit 42\n"), &stdout, &stderr)
		if code != row.code || !strings.Contains(stdout.String()+stderr.String(), row.says) {
			t.Errorf("%s: code %d, want %d and %q in %s%s", behaviour, code, row.code, row.says, stdout.String(), stderr.String())
		}
	}
}

func root(a *app.App) *cobra.Command {
	root := &cobra.Command{Use: "sealift-testgrid"}
	root.AddCommand(testgrid.Commands(a)...)
	return root
}

func TestServeShowsReportUntilInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errOut tail.Buffer
	done := make(chan int, 1)
	go func() {
		done <- app.Run(ctx, "sealift-testgrid", root, []string{"serve", kept(t), "--listen", "127.0.0.1:0"}, strings.NewReader(""), &bytes.Buffer{}, &errOut)
	}()
	var url string
	for deadline := time.Now().Add(time.Minute); url == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		url = regexp.MustCompile(`http://[0-9.:]+/`).FindString(errOut.String())
	}
	answer, err := http.Get(url + "results/gone/a/")
	if err != nil {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	_ = answer.Body.Close()
	stop()
	if code := <-done; answer.StatusCode != http.StatusOK || code != app.ExitDone {
		t.Errorf("the page of a test: %d; exit %d: %s", answer.StatusCode, code, errOut.String())
	}
}

func TestHistoryNamesPackageThatBrokeTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := store.Opener{Write: true}.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for n, verdict := range []report.Verdict{report.Passed, report.Failed} {
		cells := report.Cells([]report.Result{
			{Test: "one", System: "a", Attempt: 1, Verdict: verdict, Packages: map[string]string{[]string{"kubernetes 1.35.4", "kubernetes 1.36.3"}[n]: "x"}},
			{Test: "two", System: "a", Attempt: 1, Verdict: report.Passed}})
		if err := (history.History{Store: s}).Add(t.Context(), time.Date(2026, 1, n+1, 0, 0, 0, 0, time.UTC), cells); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errOut := command(t, "history", dir)
	const want = "TEST  SYSTEM  RUNS  STATE\none   a       ✓✗    broken since 2026-01-02 00:00:00 by kubernetes 1.36.3 instead of 1.35.4\ntwo   a       ✓✓    passes\n"
	if code != app.ExitDone || out != want {
		t.Errorf("code %d: %s\n%s\nwant\n%s", code, errOut, out, want)
	}
	if code, out, _ := command(t, "history", dir, "-o", "json"); code != app.ExitDone || !strings.Contains(out, `"kubernetes 1.36.3 instead of 1.35.4"`) {
		t.Errorf("code %d: %s", code, out)
	}
	if code, _, _ := command(t, "history", dir, "--last", "0"); code != app.ExitUsage {
		t.Errorf("no runs: code %d", code)
	}
	if code, out, errOut := command(t, "history", filepath.Join(dir, "runs")); code != app.ExitDone || out != "TEST  SYSTEM  RUNS  STATE\n" {
		t.Errorf("an empty store: code %d: %s%s", code, out, errOut)
	}
}
