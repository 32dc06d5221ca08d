package bundle

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct {
	*app.App
	nodes []string // commands of the sealift that nodes get
}

// Bundle makes the command bundle. Its scripts start commands that nodes have.
func Bundle(a *app.App, nodes []string) *cobra.Command { return commands{a, nodes}.bundleCommand() }

// Serve makes the command serve. Its scripts start commands that nodes have.
func Serve(a *app.App, nodes []string) *cobra.Command { return commands{a, nodes}.serveCommand() }
