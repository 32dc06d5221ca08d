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
