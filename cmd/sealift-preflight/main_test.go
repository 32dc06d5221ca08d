package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]error{
		"": errUsage, "nonsense": errUsage, "check --nonsense": errUsage, "check --dir x": errUsage,
		"--help": flag.ErrHelp, "help": flag.ErrHelp, "collect --help": flag.ErrHelp,
	} {
		if err := run(t.Context(), strings.Fields(line), strings.NewReader(""), &strings.Builder{}); !errors.Is(err, want) {
			t.Errorf("%q: error %v, want %v", line, err, want)
		}
	}
}

// TestOwnRedactorsAreApplied has a SupportBundle in a Secret, and a Redactor beside it.
func TestOwnRedactorsAreApplied(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "some.log")
	if err := os.WriteFile(file, []byte("the ship is PEARL\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const specs = `apiVersion: v1
kind: Secret
metadata: {name: of-a-site, labels: {troubleshoot.sh/kind: support-bundle}}
stringData:
  support-bundle-spec: |
    apiVersion: troubleshoot.sh/v1beta2
    kind: SupportBundle
    metadata: {name: inner}
    spec: {hostCollectors: [{cpu: {}}], hostAnalyzers: [{cpu: {outcomes: [{pass: {message: fine}}]}}]}
---
apiVersion: troubleshoot.sh/v1beta2
kind: Redactor
metadata: {name: ships}
spec: {redactors: [{name: ship, removals: {values: [PEARL]}}]}
`
	var out strings.Builder
	if err := run(t.Context(), []string{"collect", "--dir", dir}, strings.NewReader(specs), &out); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "PEARL") {
		t.Errorf("%v, %s", err, text)
	}
	if !strings.Contains(out.String(), "inner") {
		t.Errorf("no result of the SupportBundle in the Secret: %s", out.String())
	}
}
