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

const resumable = `
- name: two steps
  airgap: true
  installerSpec: KUBERNETES
  flags: FLAGS
  numSecondaryNodes: 1
  preInstallScript: echo pre >>$SHARED/ran
  postInstallScript: |
    echo post >>$SHARED/ran
    SCRIPT
  expect:
  - command: {node: 2, run: "echo expect >>$SHARED/ran"}
`

// TestFailedTestResumesAfterLastGoodStep keeps machines twice, fixes the script, and resumes. A step whose input has changed
// runs again, and all steps behind it.
func TestFailedTestResumesAfterLastGoodStep(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	ran := filepath.Join(b.dir, "shared", "ran")
	step := func(behaviour, script, flags string, o runner.Options, verdict report.Verdict, want string) report.Result {
		t.Helper()
		b.describe(t, strings.NewReplacer("SCRIPT", script, "FLAGS", flags).Replace(resumable))
		if err := os.WriteFile(ran, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := b.must(t, o)["two-steps/plain"]
		text, err := os.ReadFile(ran)
		if got := strings.Join(strings.Fields(string(text)), " "); err != nil || got != want || c.Verdict != verdict {
			t.Errorf("%s: %s %q, and %q ran; want %s and %q; %v", behaviour, c.Verdict, c.Reason(), got, verdict, want, err)
		}
		return c.Attempts[0]
	}
	shared := t.TempDir()
	s, err := store.Opener{Write: true}.Open(shared)
	if err != nil {
		t.Fatal(err)
	}
	keep, resume := runner.Options{KeepFailed: true}, runner.Options{KeepFailed: true, Resume: true, History: &history.History{Store: s}}
	step("a failure", "false", "yes", keep, report.Failed, "pre post")
	step("still wrong", "false", "yes", resume, report.Failed, "post")
	made := b.made(t)
	resumed := step("mended", "true", "yes", resume, report.Passed, "post expect")
	if !resumed.Resumed || len(resumed.Machines) > 0 || len(resumed.Warnings) != 1 || !strings.Contains(resumed.Warnings[0], `resumed with "post-install script"`) || len(resumed.Steps) != 7 {
		t.Errorf("the resumed test has machines %+v, warnings %q, steps %+v", resumed.Machines, resumed.Warnings, resumed.Steps)
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "machines", "*")); len(left) > 0 || b.made(t) != made {
		t.Errorf("machines are left, or were made: %q", left)
	}
	if given, err := filepath.Glob(filepath.Join(shared, "tests", "*")); len(given) > 0 || err != nil {
		t.Errorf("other machines get a result that was resumed: %q, %v", given, err)
	}
	step("nothing failed", "true", "yes", resume, report.Passed, "")
	step("a failure again", "false", "yes", runner.Options{KeepFailed: true}, report.Failed, "pre post")
	step("an early step has changed", "true", "no", resume, report.Passed, "post expect")
	step("the last failure", "false", "no", keep, report.Failed, "pre post")
	if err := os.RemoveAll(filepath.Join(b.dir, "machines")); err != nil {
		t.Fatal(err)
	}
	gone := step("the machines are gone", "true", "no", resume, report.Failed, "")
	if !strings.Contains(gone.Reason, "run without --resume") {
		t.Errorf("reason: %q", gone.Reason)
	}
}
