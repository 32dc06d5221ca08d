package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sealift/sealift/cli/channel"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/flood"
)

// TestMain lets scripts run this binary as the command sealift, and under the name of channels.
func TestMain(m *testing.M) {
	sandbox.Main(engine.Tasks()...)
	testscript.Main(m, map[string]func(){"sealift": main, "flood": flood.Main, channel.ChannelsName: main})
}

// TestScripts runs testdata/script: one script for each thing that a command promises. UPDATE_SCRIPTS=1 rewrites the
// outputs that they expect.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("there is no condition %s", name)
			}
			return os.Geteuid() == 0, nil
		},
		Setup: func(env *testscript.Env) error { // any program does for nodes
			program := filepath.Join(env.WorkDir, ".programs", "sealift-node")
			env.Setenv("SEALIFT_SEALIFT", program)
			return errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, []byte("#!/bin/sh\n"), 0o600))
		},
	})
}
