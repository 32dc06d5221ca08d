package main

import (
	"errors"
	"flag"
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
