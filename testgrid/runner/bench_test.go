package runner_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
)

// bench is a folder with all that a run needs, with machines and a sealift of package fixture.
type bench struct{ dir string }

func newBench(t *testing.T, tests string) bench {
	t.Helper()
	short.Skip(t, "root, for mount namespaces")
	b := bench{t.TempDir()}
	if err := errors.Join(fixture.WritePrograms(b.dir), os.WriteFile(filepath.Join(b.dir, "hosts.yaml"), []byte("systems:\n  plain: {command: ./hosts}\n  other: {command: ./hosts}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.describe(t, tests)
	return b
}

// describe replaces the file of tests. $SHARED is a folder that all machines have.
func (b bench) describe(t *testing.T, tests string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "tests.yaml"), []byte(strings.ReplaceAll(tests, "KUBERNETES", "{kubernetes: {version: 1.36.3}}")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b bench) run(ctx context.Context, o runner.Options) ([]report.Cell, error) {
	file, err := gridspec.Load(filepath.Join(b.dir, "tests.yaml"), gridspec.Values{})
	if err != nil {
		return nil, err
	}
	if o.Hosts, err = machine.Load(filepath.Join(b.dir, "hosts.yaml"), machine.Options{}); err != nil {
		return nil, err
	}
	o.Files, o.Out, o.Sealift, o.Store = []*gridspec.File{file}, filepath.Join(b.dir, "report"), filepath.Join(b.dir, "sealift"), cmp.Or(o.Store, "store")
	if len(o.Systems) == 0 {
		o.Systems = []string{"plain"}
	}
	return runner.Run(ctx, o)
}

func (b bench) must(t *testing.T, o runner.Options) map[string]report.Cell {
	t.Helper()
	o.Progress = func(line string) { t.Log(line) }
	cells, err := b.run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, "machines", "*")); len(left) > 0 && !o.KeepFailed || err != nil {
		t.Errorf("machines are left: %v, %v", left, err)
	}
	byTest := map[string]report.Cell{}
	for _, c := range cells {
		byTest[c.Test+"/"+c.System] = c
	}
	return byTest
}

// made counts the calls of the program that makes machines.
func (b bench) made(t *testing.T) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), "make\n")
}
