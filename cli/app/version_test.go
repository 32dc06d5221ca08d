package app

import (
	"strings"
	"testing"
)

func TestVersionMatchesProgram(t *testing.T) {
	var out strings.Builder
	cmd := (&App{Out: &out}).VersionCommand("ship")
	if err := cmd.RunE(cmd, nil); err != nil || !strings.HasPrefix(out.String(), "ship ") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if cmd.Example != "  ship version\n  ship version -o json" {
		t.Errorf("the examples are of another program: %s", cmd.Example)
	}
}
