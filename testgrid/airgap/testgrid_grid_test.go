//go:build grid

package airgap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/report"
)

// gridRoad has the packages of both releases, and the grid's program.
func gridRoad(t *testing.T) delivery {
	t.Helper()
	older, r := build(t, previous, "debian-12"), build(t, current, "debian-12")
	shell(t, r.packages, "ln -f "+older.packages+"/kubernetes-"+previous+".tar.gz .")
	compile(t, r.dir(), "./cmd/sealift-testgrid")
	return r
}

// demoTests is the file of tests for newcomers.
const demoTests = "testgrid/demo/tests.yaml"

// TestGridRunsDemoTests runs testgrid/demo/tests.yaml from the command line, on hosts of the lab.
func TestGridRunsDemoTests(t *testing.T) {
	r := gridRoad(t)
	hosts, out := filepath.Join(r.dir(), "hosts.yaml"), filepath.Join(t.TempDir(), "report")
	place(t, hosts, []byte("systems: {debian-12: {lab: debian-12}}\n"))
	list := r.grid(t, 1, demoTests, hosts, out) // one test calls out
	if want := (report.Counts{Passed: 3, Failed: 1, Skipped: 1}); list.Counts != want {
		t.Errorf("%s, want %s", list.Counts, want)
	}
	for _, c := range list.Cells {
		if c.Test != "a-script-that-calls-out" {
			continue
		}
		a := c.Attempts[0]
		if len(a.Violations) != 1 || a.Violations[0].Address != "203.0.113.7" || a.Violations[0].Port != 443 || !strings.Contains(a.Violations[0].Process, "/dev/tcp/203.0.113.7/443") {
			t.Errorf("the violation is %+v", a.Violations)
		}
		if len(a.Files) != 1 {
			t.Errorf("support bundles: %q", a.Files)
		}
	}
	again := r.grid(t, 1, demoTests, hosts, out)
	for i, c := range list.Cells {
		if c.Verdict != report.Skipped && !again.Cells[i].Attempts[0].Started.Equal(c.Attempts[0].Started) {
			t.Errorf("a second run did not take over the result of %s", c.Test)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil || strings.Count(string(page), `class="verdict`) != 5 {
		t.Errorf("the page shows other cells: %v\n%s", err, page)
	}
}
