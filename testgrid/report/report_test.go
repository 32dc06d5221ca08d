package report_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

const hostile = `<script>alert("x")</script> & # 'quoted'`

// results are one of each verdict.
func results() []report.Result {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return []report.Result{
		{Test: "one", Name: "one " + hostile, System: "debian-12", Attempt: 1, Verdict: report.Passed, Started: at, Took: 62.5,
			Steps: []report.Step{{Name: "install", Verdict: report.Passed, Took: 60, Log: "install.log"}}},
		{Test: "one", Name: "one " + hostile, System: "debian-13", Attempt: 1, Verdict: report.Failed, Reason: "install: exit 1\n" + hostile, Started: at, Took: 3,
			Steps:      []report.Step{{Name: "machines", Verdict: report.Passed, Took: 1, Log: "machines.log"}, {Name: "install", Verdict: report.Failed, Begin: 1, Took: 2, Error: hostile, Log: "install.log"}},
			Violations: []machine.Connection{{Address: "203.0.113.7", Protocol: "tcp", Port: 443, Packets: 2, Process: "curl " + hostile}}, Machines: []report.Machine{{Name: "host-1", Address: "10.90.0.2", Enter: []string{"sealift-testgrid", "lab", "enter", "host-1"}}}},
		{Test: "two", Name: "two", System: "debian-12", Attempt: 2, Verdict: report.Passed, Started: at, Took: 2},
		{Test: "two", Name: "two", System: "debian-12", Attempt: 1, Verdict: report.Failed, Reason: "no luck", Started: at, Took: 1},
		{Test: "three", Name: "three", System: "debian-12", Attempt: 1, Verdict: report.Skipped, Reason: "needs upgrade", Started: at},
	}
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written is a report with a log.
func written(t *testing.T) report.Folder {
	t.Helper()
	f := report.Folder{Path: t.TempDir()}
	for _, r := range results() {
		if err := f.Save(r); err != nil {
			t.Fatal(err)
		}
	}
	log := strings.Repeat("a line of the log\n", 5000) + "the last line " + hostile + "\xff\n"
	if err := os.WriteFile(filepath.Join(f.Dir("one", "debian-13", 1), "install.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(results()); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestResultRoundTrips(t *testing.T) {
	f := written(t)
	got, err := f.Load("one", "debian-13", 1)
	if err != nil || got == nil {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff(results()[1], *got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, err := f.Load("one", "debian-13", 2); got != nil || err != nil {
		t.Errorf("a result that nobody saved: %v, %v", got, err)
	}
	path := filepath.Join(f.Dir("one", "debian-13", 1), "result.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load("one", "debian-13", 1); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged result: %v", err)
	}
}

func TestCellsJudgeAllAttempts(t *testing.T) {
	cells := report.Cells(results())
	var got []string
	for _, c := range cells {
		got = append(got, fmt.Sprintf("%s %s %s %s", c.Test, c.System, c.Verdict, c.Rate()))
	}
	want := []string{"one debian-12 passed ", "one debian-13 failed ", "two debian-12 flaky 1 of 2 passed", "three debian-12 skipped "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := report.Count(cells).String(); n != "1 passed, 1 failed, 1 flaky, 1 skipped" {
		t.Error(n)
	}
}

func TestPagesEscapeTestOutput(t *testing.T) {
	f := written(t)
	index, cell := read(t, f.Path, "index.html"), read(t, f.Path, "results/one/debian-13/index.html")
	for name, page := range map[string]string{"index": index, "cell": cell} {
		if strings.Contains(page, "<script") || strings.Contains(page, "javascript:") || !strings.Contains(page, "&lt;script&gt;") {
			t.Errorf("the page %s has unescaped text:\n%s", name, page)
		}
		if strings.Contains(page, "ZgotmplZ") {
			t.Errorf("the page %s has a value in a place where the template refuses it", name)
		}
	}
	for _, want := range []string{`href="results/one/debian-13/index.html"`, "✗", "✓", "≈", "1 of 2 passed", `scope="row"`, "1 passed, 1 failed, 1 flaky, 1 skipped", "not run"} {
		if !strings.Contains(index, want) {
			t.Errorf("the index lacks %q", want)
		}
	}
	for _, want := range []string{"203.0.113.7 port 443 (tcp) by curl", "the last line", `href="1/install.log"`, "lab enter host-1", "left: 33.33%", "2026-01-02 03:04:05 UTC"} {
		if !strings.Contains(cell, want) {
			t.Errorf("the page of the failed test lacks %q", want)
		}
	}
	if strings.Index(cell, `>install: failed</summary>`) > strings.Index(cell, `>machines: passed</summary>`) {
		t.Error("the log of the step that failed is not the first")
	}
	if len(cell) > 64<<10 {
		t.Errorf("the page has all of a large log: %d bytes", len(cell))
	}
}

func TestReportIsMachineReadable(t *testing.T) {
	f := written(t)
	var suites struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Failure string `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(read(t, f.Path, "junit.xml")), &suites); err != nil {
		t.Fatal(err)
	}
	if s := suites.Suites[0]; s.Name != "debian-12" || s.Tests != 4 || s.Failures != 1 || s.Skipped != 1 || s.Cases[1].Name != "two (attempt 1)" {
		t.Errorf("%+v", s)
	}
	if c := suites.Suites[1].Cases[0]; c.Name != "one "+hostile || !strings.Contains(c.Failure, hostile) {
		t.Errorf("%+v", c)
	}
	const tap = "TAP version 14\n1..4\nok 1 - one <script>alert(\"x\")</script> & \\# 'quoted' on debian-12\nnot ok 2 - "
	if got := read(t, f.Path, "results.tap"); !strings.HasPrefix(got, tap) || !strings.Contains(got, "ok 4 - three on debian-12 # SKIP needs upgrade\n") || !strings.Contains(got, "rate: \"1 of 2 passed\"") {
		t.Errorf("%s", got)
	}
	var list struct {
		Counts report.Counts
		Cells  []report.Cell
	}
	if err := json.Unmarshal([]byte(read(t, f.Path, "results.json")), &list); err != nil || list.Counts.Flaky != 1 || len(list.Cells) != 4 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestReportShowsResultsOfKilledRun uses a test that waits. Programs must not treat it as passed.
func TestReportShowsResultsOfKilledRun(t *testing.T) {
	f := report.Folder{Path: t.TempDir()}
	if err := f.SaveSummary("1 of 2 tests ran " + hostile); err != nil {
		t.Fatal(err)
	}
	if err := f.Write([]report.Result{{Test: "one", Name: "one", System: "a", Attempt: 1, Verdict: report.Waiting}}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"index.html":               "1 of 2 tests ran &lt;script&gt;",
		"results.json":             `"summary": "1 of 2 tests ran `,
		"junit.xml":                `failures="1"`,
		"results.tap":              "not ok 1 - one on a\n  ---\n  message: \"the test has not ended\"",
		"results/one/a/index.html": "waiting",
	} {
		if got := read(t, f.Path, file); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", file, want, got)
		}
	}
}
