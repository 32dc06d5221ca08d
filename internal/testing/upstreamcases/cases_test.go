package upstreamcases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder records Path's messages to a test.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (*recorder) Helper()                    {}
func (*recorder) Logf(string, ...any)        {}
func (r *recorder) Fatal(args ...any)        { r.failed = args[0].(error).Error(); panic(r) }
func (r *recorder) Skipf(f string, a ...any) { r.skipped = f; panic(r) }

// ask calls Path in a separate test.
func ask(t *testing.T, name string) (file string, r *recorder) {
	r = &recorder{TB: t}
	defer func() {
		if caught := recover(); caught != nil && caught != any(r) {
			panic(caught)
		}
	}()
	return Path(r, name), r
}

func TestEnvironmentNamesCases(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "one.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ dir, name, file, skipped, failed string }{
		{dir, "one.json", filepath.Join(dir, "one.json"), "", ""},
		{dir, "two.json", "", "needs upstream cases", ""},
		{dir + "/none", "one.json", "", "", "SEALIFT_CASES: "},
		{dir + "/one.json", "one.json", "", "", "is not an absolute path of a folder"},
		{".", "cases.go", "", "", "is not an absolute path of a folder"},
	} {
		t.Setenv(folder, row.dir)
		file, got := ask(t, row.name)
		if got == nil {
			got = &recorder{}
		}
		if file != row.file || !strings.Contains(got.skipped, row.skipped) || (got.skipped == "") != (row.skipped == "") ||
			!strings.Contains(got.failed, row.failed) || (got.failed == "") != (row.failed == "") {
			t.Errorf("%s in %q: %q, skipped %q, failed %q", row.name, row.dir, file, got.skipped, got.failed)
		}
	}
}

func TestDefaultCasesLieBesideCheckout(t *testing.T) {
	t.Setenv(folder, "")
	checkout := t.TempDir()
	below := filepath.Join(checkout, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(checkout, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	if got, err := root(); err != nil || got != filepath.Join(filepath.Dir(checkout), "shared", "cases") {
		t.Errorf("%q, %v", got, err)
	}
}
