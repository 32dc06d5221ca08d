package testgrid_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
)

// command runs one command line of the grid.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = app.Run(t.Context(), "sealift-testgrid", root, args, strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLintCountsTestsAndNamesMistakesOfAllFiles(t *testing.T) {
	good := write(t, "good.yaml", "- installerSpec: {kubernetes: {version: 1.36.3}}\n- installerSpec: {kubernetes: {version: 1.35.4}}\n")
	systems := write(t, "systems.yaml", "- {id: ubuntu-2404, name: Ubuntu, version: \"24.04\"}\n")
	bad := write(t, "bad.yaml", "- name: x\n  installerSpec: {kubernetes: {version: 1.36.3}}\n  airgap: maybe\n  rest: clean\n")
	code, out, errOut := command(t, "lint", good, systems, bad)
	want := good + ": 2 tests\n" + systems + ": 1 system\n" +
		bad + ":3:11: error: airgap must be true or false (write true or false)\n" +
		bad + ":4:3: error: unknown key \"rest\" in a test (did you mean \"reset\"?)\n"
	if code != app.ExitFailed || out != want || !strings.Contains(errOut, "not valid: 2 errors") {
		t.Errorf("code %d, %s\n%s\nwant\n%s", code, errOut, out, want)
	}
	code, out, _ = command(t, "lint", good, bad, "-o", "json")
	var list []struct {
		Tests    int
		Findings []struct{ Position struct{ Line int } }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != app.ExitFailed || len(list) != 2 || list[0].Tests != 2 || len(list[1].Findings) != 2 || list[1].Findings[1].Position.Line != 4 {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
	if code, out, errOut := command(t, "lint", good); code != app.ExitDone || errOut != "" {
		t.Errorf("code %d: %s%s", code, out, errOut)
	}
	if code, _, errOut := command(t, "lint", "/does/not/exist"); code != app.ExitFailed || !strings.Contains(errOut, "/does/not/exist") {
		t.Errorf("code %d: %s", code, errOut)
	}
	if code, _, _ := command(t, "lint"); code != app.ExitUsage {
		t.Errorf("without files: code %d", code)
	}
}

// TestDocumentedExampleIsValid reads the YAML of docs/testgrid.md and lint's output there.
func TestDocumentedExampleIsValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/testgrid.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n# tests.yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	path := write(t, "tests.yaml", text)
	code, out, errOut := command(t, "lint", path)
	if said := strings.TrimPrefix(out, filepath.Dir(path)+"/"); code != app.ExitDone || !strings.Contains(string(page), "$ sealift testgrid lint tests.yaml\n"+said) {
		t.Errorf("code %d, %s%s", code, out, errOut)
	}
}

func TestSchemaPrintsJSON(t *testing.T) {
	code, out, _ := command(t, "schema")
	if !json.Valid([]byte(out)) || code != app.ExitDone || !strings.Contains(out, "numPrimaryNodes") {
		t.Errorf("code %d: %s", code, out)
	}
}
