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
