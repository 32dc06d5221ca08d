package node_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/node"
)

// TestNodesHaveTheirCommandsAndNoOthers names what scripts, hooks and users call on a node, and what only others need.
func TestNodesHaveTheirCommandsAndNoOthers(t *testing.T) {
	names := node.CommandNames()
	for _, name := range strings.Fields("preflight install token join status journal certs snapshot support-bundle images node reset apply channel verify spec hook version") {
		if !slices.Contains(names, name) {
			t.Errorf("nodes have no command %s", name)
		}
	}
	for _, name := range strings.Fields("manifest addon lock build key cache inspect import publish bundle serve") {
		var errOut bytes.Buffer
		if code := app.Run(t.Context(), "sealift", node.Root, []string{name}, strings.NewReader(""), &bytes.Buffer{}, &errOut); code != app.ExitUsage {
			t.Errorf("nodes have the command %s: exit code %d, %s", name, code, &errOut)
		}
	}
}

// TestCommandsThatCheckAHostShowTheFlagsOfChecks proves that kURL's words for these flags do not hide them.
func TestCommandsThatCheckAHostShowTheFlagsOfChecks(t *testing.T) {
	for _, name := range []string{"preflight", "install", "join", "restore"} {
		cmd, _, err := node.Root(&app.App{}).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range []string{"ignore", "enforce-warnings", "exclude-builtin"} {
			if found := cmd.Flags().Lookup(flag); found == nil || found.Hidden || found.Value.Type() != "bool" {
				t.Errorf("%s: its help has no --%s", name, flag)
			}
		}
		if found := cmd.Flags().Lookup("host-preflight-ignore"); found == nil || found.Name != "ignore" {
			t.Errorf("%s: kURL's host-preflight-ignore is not --ignore", name)
		}
	}
}
