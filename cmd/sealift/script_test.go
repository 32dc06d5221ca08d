package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sealift/sealift/cli/keep"
)

// TestMain lets scripts run this binary as the command sealift, and under the name of channels.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sealift": main, keep.ChannelsName: main})
}

// TestScripts runs testdata/script: one script for each thing that a command promises. UPDATE_SCRIPTS=1 rewrites the
// outputs that they expect.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
