package remote

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
)

// TestMachinesBelongToOneRun uses two runs of the same tests, with other packages.
func TestMachinesBelongToOneRun(t *testing.T) {
	t.Parallel()
	machines := func(packages string) string {
		piece, err := json.Marshal(input{Setting: Setting{Packages: packages}, Tests: "tests", Test: "test", System: "system", Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		return owner(piece)
	}
	some := machines("some")
	if some == machines("other") {
		t.Error("one run removes the machines of the other")
	}
	if again := machines("some"); again != some {
		t.Error("a pod does not know the machines of the lost one before it")
	}
}

// TestStoredResultCannotEscapeFolder has foreign results in the store.
func TestStoredResultCannotEscapeFolder(t *testing.T) {
	t.Parallel()
	a := runner.Attempt{Test: "one", System: "plain", Number: 1}
	from := func(r report.Result) report.Result {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return resultOf(a, batch.Outcome{Output: data})
	}
	good := report.Result{Test: "one", System: "plain", Attempt: 1, Verdict: report.Passed, Steps: []report.Step{{Log: "01-a.log"}}}
	good.Machines = []report.Machine{{Name: "m", Enter: []string{"sh", "-c", "touch /tmp/owned"}}}
	if got := from(good); got.Verdict != report.Passed || got.Machines != nil {
		t.Errorf("%+v", got)
	}
	good.Steps[0].Log = "../../../../secret"
	if got := from(good); got.Verdict != report.Failed || !strings.Contains(got.Reason, "is not a file beside the result") {
		t.Errorf("%+v", got)
	}
}
