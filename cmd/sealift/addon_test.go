package main

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
)

func TestNewVersionIsLocked(t *testing.T) {
	work := t.TempDir()
	put := func(path, content string) {
		t.Helper()
		path = filepath.Join(work, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("files/tool-1.1", "one")
	put("addons/demo/template/Manifest.tmpl", "asset tool https://files.example.com/tool-${VERSION}\n")
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(work, "files"))))
	t.Cleanup(server.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	put("online.yaml", "mirrors: {\"https://files.example.com/\": \""+server.URL+"/\"}\n")
	put("offline.yaml", "mirrors: {\"https://files.example.com/\": \""+gone.URL+"/\"}\n")

	tests := []struct {
		name            string
		config, version string
		flags           []string
		code            int
		written, locked bool
		message         string // on stderr
	}{
		{"the network answers", "online.yaml", "1.1", nil, app.ExitDone, true, true, ""},
		{"it answers that it has no such version", "online.yaml", "9.9", nil, app.ExitFailed, false, false, "nothing was written"},
		{"it does not answer", "offline.yaml", "1.2", nil, app.ExitDone, true, false, "the network does not answer; lock the version later with: sealift lock "},
		{"it does not answer and must", "offline.yaml", "1.3", []string{"--lock"}, app.ExitFailed, false, false, "nothing was written"},
		{"nobody asks it", "online.yaml", "9.8", []string{"--no-lock"}, app.ExitDone, true, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"addon", "new-version", "demo", test.version, "--addons", filepath.Join(work, "addons"),
				"--cache", filepath.Join(work, "cache"), "--config", filepath.Join(work, test.config)}, test.flags...)
			code, out, errOut := command(t, args...)
			if code != test.code || !strings.Contains(errOut, test.message) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, test.code, out, errOut)
			}
			dir := filepath.Join(work, "addons", "demo", test.version)
			for name, want := range map[string]bool{"Manifest": test.written, "Manifest.lock": test.locked} {
				if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) == want {
					t.Errorf("%s: %v, and it should be there: %v", name, err, want)
				}
			}
		})
	}
}
