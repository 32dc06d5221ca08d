package conformance_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/testgrid/conformance"
	"github.com/sealift/sealift/testgrid/report"
)

// options are those of a run of the stand-in.
func options(t *testing.T) conformance.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "e2e.test")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	return conformance.Options{
		Suite:   conformance.Suite{Program: program, Kubeconfig: filepath.Join(dir, "kubeconfig")},
		Cluster: conformance.Cluster{ID: "one", Version: "v1.36.1"},
		Out:     filepath.Join(dir, "report"),
	}
}

// ran lists the tests that have begun, in their order.
func ran(t *testing.T, o conformance.Options) []string {
	t.Helper()
	text, err := os.ReadFile(o.Suite.Kubeconfig + ".ran")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// verdicts returns the verdict and the reason of each test.
func verdicts(cells []report.Cell) map[string]string {
	all := map[string]string{}
	for _, c := range cells {
		all[c.Name] = strings.TrimSpace(string(c.Verdict) + " " + c.Reason())
	}
	return all
}

// written reads results.json of the report.
func written(t *testing.T, o conformance.Options) (list struct {
	Summary string
	Cells   []report.Cell
}) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.Out, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func page(t *testing.T, o conformance.Options) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.Out, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEachTestHasVerdictAndReason(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Skip = regexp.MustCompile("hang")
	o.Parallel = 3
	cells, err := conformance.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	got := verdicts(cells)
	for name, want := range map[string]string{
		passes:  "^passed$",
		fails:   `^failed connection refused\nby 192.0.2.1\nat .*standin_test.go:\d+$`,
		skips:   `^skipped needs two nodes`,
		crashes: `(?s)^failed e2e.test: exit status 7\n.*the last words`,
	} {
		if !regexp.MustCompile(want).MatchString(got[name]) {
			t.Errorf("%s: %q, want %s", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more tests: %q", got)
	}
	if order := ran(t, o); len(order) != 4 || order[3] != skips {
		t.Errorf("these ran, in this order, where the serial test ought to be the last: %q", order)
	}
	list := written(t, o)
	if want := "3 of 5 conformance tests of Kubernetes v1.36.3 ran on a cluster of v1.36.1"; list.Summary != want || !strings.Contains(page(t, o), want) {
		t.Errorf("the summary is %q, want %q, on the page, too", list.Summary, want)
	}
	for _, c := range list.Cells {
		log, err := os.ReadFile(filepath.Join(report.Folder{Path: o.Out}.Dir(c.Test, c.System, 1), "e2e.log"))
		if err != nil || c.System != "kubernetes-1.36.1" || c.Name == crashes && !strings.Contains(string(log), "the last words") {
			t.Errorf("the log of %s on %s: %v\n%s", c.Name, c.System, err, log)
		}
	}
}

func TestHangingTestFails(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Focus, o.Timeout = regexp.MustCompile("hang"), time.Second
	cells, err := conformance.Run(t.Context(), o)
	if err != nil || len(cells) != 1 || cells[0].Verdict != report.Failed || cells[0].Reason() == "" {
		t.Errorf("%v, %+v", err, cells)
	}
}

func TestUnstartableSuiteFailsItsTests(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Focus, o.Suite.Arguments = regexp.MustCompile(regexp.QuoteMeta(conformance.Quick)), []string{"--broken"}
	cells, err := conformance.Run(t.Context(), o)
	if err != nil || len(cells) != 1 || !strings.HasPrefix(verdicts(cells)[passes], "failed BeforeSuite: no node is ready") {
		t.Errorf("%v, %q", err, verdicts(cells))
	}
}

// TestInterruptedRunResumes ends a run while a test hangs. What has not ended waits in the report, and the next run does it.
func TestInterruptedRunResumes(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Focus = regexp.MustCompile("submitted|hang")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			if text, err := os.ReadFile(o.Suite.Kubeconfig + ".ran"); err == nil && strings.Contains(string(text), hangs) {
				stop()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	cells, err := conformance.Run(ctx, o)
	if err == nil || verdicts(cells)[hangs] != "waiting" || verdicts(cells)[passes] != "passed" {
		t.Fatalf("an interrupted run: %v, %q", err, verdicts(cells))
	}
	if order := ran(t, o); !slices.Contains(order, "cleaned up") {
		t.Errorf("the test did not clean up: %q", order)
	}
	list := written(t, o)
	if want := "1 of 5 conformance tests of Kubernetes v1.36.3 ran on a cluster of v1.36.1; 1 have not ended"; !strings.HasPrefix(list.Summary, want) || !strings.Contains(page(t, o), "1 waiting") {
		t.Errorf("the report of an interrupted run says %q\n%s", list.Summary, page(t, o))
	}

	before := len(ran(t, o))
	o.Focus = regexp.MustCompile("submitted|fail")
	cells, err = conformance.Run(t.Context(), o)
	if err != nil || verdicts(cells)[passes] != "passed" || !strings.HasPrefix(verdicts(cells)[fails], "failed") {
		t.Fatalf("%v, %q", err, verdicts(cells))
	}
	if diff := cmp.Diff([]string{fails}, ran(t, o)[before:]); diff != "" {
		t.Errorf("the second run repeats what has ended (-want +got)\n%s", diff)
	}
	o.Focus, o.Again = regexp.MustCompile("submitted|fail"), conformance.AgainFailed
	if _, err = conformance.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Focus, o.Again, o.Cluster.ID = regexp.MustCompile("submitted"), "", "another"
	if _, err = conformance.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{fails, fails, passes}, ran(t, o)[before:]); diff != "" {
		t.Errorf("failed tests again, then a test on another cluster (-want +got)\n%s", diff)
	}
}

func TestReportKeepsResultsOfEarlierRun(t *testing.T) {
	t.Parallel()
	o := options(t)
	for _, focus := range []string{"submitted", "be two"} {
		o.Focus = regexp.MustCompile(focus)
		cells, err := conformance.Run(t.Context(), o)
		if err != nil || len(cells) != 1 {
			t.Fatalf("%v, %+v", err, cells)
		}
	}
	if cells := written(t, o).Cells; len(cells) != 2 {
		t.Errorf("the report has %+v", cells)
	}
}

func TestUnrunnableSuiteIsRefused(t *testing.T) {
	t.Parallel()
	o := options(t)
	for behaviour, row := range map[string]struct {
		change func(*conformance.Options)
		says   string
	}{
		"a cluster of another minor version": {func(o *conformance.Options) { o.Cluster.Version = "v1.35.4" }, "use the e2e.test of v1.35.4"},
		"no test":                            {func(o *conformance.Options) { o.Focus = regexp.MustCompile("nothing") }, "no conformance test of 5"},
		"another program":                    {func(o *conformance.Options) { o.Suite.Program = "/bin/true" }, "not a release of Kubernetes"},
		"a program that fails":               {func(o *conformance.Options) { o.Suite.Program = "/bin/false" }, "exit status 1"},
	} {
		changed := o
		row.change(&changed)
		if _, err := conformance.Run(t.Context(), changed); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", behaviour, err, row.says)
		}
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a refused run has made a report")
	}
}

func TestSuiteListsTestsAndImages(t *testing.T) {
	t.Parallel()
	s := options(t).Suite
	names, err := s.Tests(t.Context())
	if err != nil || len(names) != allTests || slices.Contains(names, noTest) {
		t.Errorf("%v, %q", err, names)
	}
	s.Repositories = "other."
	images, err := s.Images(t.Context())
	if diff := cmp.Diff([]string{"example.com/a:1", "example.com/a:2", "other.example.com/b/pause:3"}, images); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}
