package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/history"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
)

// TestFinishedTestsAreReusedOnAnotherMachine uses two machines with the same tests and one store of results. The second one runs
// tests with another input, and its report says since when a test is broken, and by which package.
func TestFinishedTestsAreReusedOnAnotherMachine(t *testing.T) {
	t.Parallel()
	s, err := store.Opener{Write: true}.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := runner.Options{History: &history.History{Store: s}}
	const tests = "- name: one\n  installerSpec: KUBERNETES\n- name: two\n  installerSpec: {kubernetes: {version: VERSION}}\n  postInstallScript: test VERSION != 1.37.0\n"
	first := newBench(t, strings.ReplaceAll(tests, "VERSION", "1.36.3"))
	first.must(t, o)
	second := newBench(t, strings.ReplaceAll(tests, "VERSION", "1.36.3"))
	if cells := second.must(t, o); cells["one/plain"].Verdict != report.Passed || second.ran(t) != 0 {
		t.Errorf("one: %s; %d tests ran on the second machine", cells["one/plain"].Verdict, second.ran(t))
	}
	log := filepath.Join(second.dir, "report", "results", "one", "plain", "1", "02-install.log")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "installing with") {
		t.Errorf("the log of a result that was taken over: %q, %v", text, err)
	}
	second.describe(t, strings.ReplaceAll(tests, "VERSION", "1.37.0"))
	if cells := second.must(t, o); cells["two/plain"].Verdict != report.Failed || second.ran(t) != 1 {
		t.Errorf("two: %s; %d tests ran on the second machine", cells["two/plain"].Verdict, second.ran(t))
	}
	page, err := os.ReadFile(filepath.Join(second.dir, "report", "results", "two", "plain", "index.html"))
	if err != nil || !strings.Contains(string(page), "by kubernetes 1.37.0 instead of 1.36.3") || strings.Count(string(page), "<li><span class=\"verdict passed\">") != 2 {
		t.Errorf("the page of a test that broke: %v\n%s", err, page)
	}
	all := o
	all.Again = runner.AgainAll
	if second.must(t, all); second.ran(t) != 3 {
		t.Errorf("%d tests ran on the second machine when all were asked for", second.ran(t))
	}
}

// ran counts the tests that have had machines.
func (b bench) ran(t *testing.T) int {
	t.Helper()
	if _, err := os.Stat(filepath.Join(b.dir, "log")); os.IsNotExist(err) {
		return 0
	}
	return b.made(t)
}
