package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/preflight"
)

func TestPreflightPageIsFollowed(t *testing.T) {
	short.Skip(t, "sealift-preflight")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w",
		"-o", filepath.Join(filepath.Dir(self), preflight.ProgramName), "../sealift-preflight")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	follow(t, "../../docs/preflight.md")
}

// TestCommandsOfServedInstallerAreShownFirst uses an Installer of another author on a server.
func TestCommandsOfServedInstallerAreShownFirst(t *testing.T) {
	h := newPlanHost(t)
	h.runningBundle()
	ran := func() (names []string) {
		for _, name := range []string{"program", "collector", "checks", "preflights"} {
			if err := os.Remove(filepath.Join(h.dir, "work", name)); err == nil {
				names = append(names, name)
			}
		}
		return names
	}
	text := strings.ReplaceAll(strings.Replace(runningInstaller, "KUBERNETES", "", 1), "RAN", filepath.Join(h.dir, "work"))
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(h.dir, "work"))))
	t.Cleanup(server.Close)
	url := server.URL + "/cluster.tar.gz"
	const (
		shown       = "kurl.hostPreflights: touch "
		someProgram = "what lies beside this test" // another test may have built sealift-preflight there
	)
	h.write("work/own.yaml", strings.Replace(text, `app: {version: "1"}`, `other: {version: "1"}`, 1))
	for _, row := range []struct {
		args, ran string
		left      bool // the checks of the Installer are left out
	}{
		{"preflight --exclude-builtin --root node --from " + url, "", true},
		{"preflight --exclude-builtin --root node --yes --from " + url, "program", false},
		{"preflight --exclude-builtin --root node --bundle cluster.tar.gz", "program", false},
		{"preflight --exclude-builtin -f own.yaml", someProgram, false},
	} {
		_, out := h.sealift("", strings.Fields(row.args)...)
		if got := strings.Join(ran(), " "); got != row.ran && row.ran != someProgram {
			t.Errorf("%s ran %q, want %q\n%s", row.args, got, row.ran, out)
		}
		if !strings.Contains(out, shown) || strings.Index(out, shown) > strings.Index(out, "RESULT") {
			t.Errorf("%s does not show the command first:\n%s", row.args, out)
		}
		if strings.Contains(out, "not made: they run commands of the Installer") != row.left {
			t.Errorf("%s: the checks of the Installer are left out: want %t\n%s", row.args, row.left, out)
		}
	}
}
