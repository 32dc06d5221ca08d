package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/cli/app"
)

// command runs a command line and returns its exit code and output.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestLock(t *testing.T) {
	files := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(files)))
	t.Cleanup(server.Close)
	work := t.TempDir()
	dir := filepath.Join(work, "demo", "1.0")
	put := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(files, "tool"), "first")
	put(filepath.Join(dir, "Manifest"), "asset tool https://files.example.com/tool\n")
	put(filepath.Join(dir, "install.sh"), "function demo() { :; }\n")
	put(filepath.Join(work, "sealift.yaml"), "mirrors: {\"https://files.example.com/\": \""+server.URL+"/\"}\n")
	lockFile := filepath.Join(dir, "Manifest.lock")
	base := []string{"--cache", filepath.Join(work, "cache"), "--config", filepath.Join(work, "sealift.yaml"), dir}
	sealift := func(args ...string) (int, string, string) { t.Helper(); return command(t, append(args, base...)...) }

	steps := []struct {
		name    string
		before  func()
		args    []string
		code    int
		out     string // the start of stdout
		message string // in stderr
	}{
		{"a strict build without a lock", nil, []string{"build", "--locked", "--out", work}, app.ExitFailed, "", "asset https://files.example.com/tool is not in " + lockFile},
		{"a check without a lock", nil, []string{"lock", "--check"}, app.ExitFailed, lockFile + ": asset https://files.example.com/tool: new, sha256:", "1 of 1 locks differ from what their Manifests resolve to now"},
		{"locking", nil, []string{"lock"}, app.ExitDone, lockFile + ": asset https://files.example.com/tool: new, sha256:", ""},
		{"locking again", nil, []string{"lock"}, app.ExitDone, lockFile + ": up to date\n", ""},
		{"a check", nil, []string{"lock", "--check"}, app.ExitDone, lockFile + ": up to date\n", ""},
		{"a strict build", nil, []string{"build", "--locked", "--out", work}, app.ExitDone, "built ", ""},
		{"a strict build after upstream has changed", func() { put(filepath.Join(files, "tool"), "second version") }, []string{"build", "--locked", "--out", work}, app.ExitDone, "up to date ", ""},
		{"locking after upstream has changed", nil, []string{"lock"}, app.ExitDone, lockFile + ": up to date\n", ""},
		{"a check after upstream has changed", nil, []string{"lock", "--check"}, app.ExitFailed, lockFile + ": asset https://files.example.com/tool: sha256:", "lock again with sealift lock --update"},
		{"an update", nil, []string{"lock", "--update"}, app.ExitDone, lockFile + ": asset https://files.example.com/tool: sha256:", ""},
		{"a build after the update", nil, []string{"build", "--locked", "--out", work}, app.ExitDone, "built ", ""},
		{"a check and an update at once", nil, []string{"lock", "--update", "--check"}, app.ExitUsage, "", "choose one"},
		{"no add-on", func() { base = base[:4] }, []string{"lock"}, app.ExitUsage, "", "requires at least 1 arg"},
	}
	for _, step := range steps { // in this order: each starts from the result of the one before
		t.Run(step.name, func(t *testing.T) {
			if step.before != nil {
				step.before()
			}
			code, out, errOut := sealift(step.args...)
			if code != step.code || !strings.HasPrefix(out, step.out) || !strings.Contains(errOut, step.message) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, step.code, out, errOut)
			}
		})
	}
	t.Run("for programs", func(t *testing.T) {
		put(filepath.Join(files, "tool"), "third")
		base = append(base, dir)
		code, out, _ := sealift("lock", "--check", "-o", "json")
		var got []builder.Locked
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != app.ExitFailed {
			t.Fatalf("exit code %d, %v: %s", code, err, out)
		}
		if len(got) != 1 || len(got[0].Changes) != 1 || !strings.Contains(got[0].Changes[0].Was, "(14 bytes)") || !strings.Contains(got[0].Changes[0].Now, "(5 bytes)") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("an add-on that cannot be locked beside one that can", func(t *testing.T) {
		broken := filepath.Join(work, "broken", "1.0")
		put(filepath.Join(broken, "Manifest"), "asset tool https://files.example.com/absent\n")
		base = append(base[:4], broken, dir)
		code, out, errOut := sealift("lock", "--update")
		if code != app.ExitFailed || !strings.Contains(out, lockFile+": written, 1 changes") || !strings.Contains(errOut, "absent answered 404") {
			t.Errorf("exit code %d\nstdout: %s\nstderr: %s", code, out, errOut)
		}
	})
}
