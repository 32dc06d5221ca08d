package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/preflight"
)

func TestTourOfPreflight(t *testing.T) {
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
	tour(t, "../../docs/preflight.md")
}
