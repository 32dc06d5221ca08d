package command

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestCommandDoesNotWaitForWhatItLeftRunning(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() {
		if pid, err := os.ReadFile(dir + "/pid"); err == nil {
			_ = exec.Command("kill", strings.TrimSpace(string(pid))).Run()
		}
	})
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), io.Discard, "sh", "-c", "sleep 3600 & echo $! >"+dir+"/pid") }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("it does not end")
	}
}

func TestOnlyUnitsOfTheHostAreRestarted(t *testing.T) {
	dir := t.TempDir()
	// systemd refuses to restart a unit that it does not find, also with try-restart
	script := `#!/bin/sh
case "$1:$*" in
show:*missing.service) echo not-found ;;
show:*) echo loaded ;;
try-restart:*missing.service) echo "Unit missing.service not found." >&2; exit 5 ;;
*) echo "$*" >>"` + dir + `/called" ;;
esac
`
	if err := os.WriteFile(dir+"/systemctl", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := TryRestart(t.Context(), io.Discard, "a.service", "missing.service", "b.service"); err != nil {
		t.Error(err)
	}
	called, err := os.ReadFile(dir + "/called")
	if want := "try-restart a.service\ntry-restart b.service\n"; err != nil || string(called) != want {
		t.Errorf("called %q, want %q: %v", called, want, err)
	}
}
