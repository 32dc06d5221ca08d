package remote

import (
	"encoding/json"
	"testing"
)

// TestMachinesBelongToOneRun has two runs of the same tests, with other packages.
func TestMachinesBelongToOneRun(t *testing.T) {
	t.Parallel()
	machines := func(packages string) string {
		piece, err := json.Marshal(input{Setting: Setting{Packages: packages}, Tests: "tests", Test: "test", System: "system", Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		return owner(piece)
	}
	if machines("some") == machines("other") {
		t.Error("one run removes the machines of the other")
	}
	if machines("some") != machines("some") {
		t.Error("a pod does not know the machines of the lost one before it")
	}
}
