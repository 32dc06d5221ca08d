package carry

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Bundle makes the command bundle.
func Bundle(a *app.App) *cobra.Command { return commands{a}.bundleCommand() }

// Serve makes the command serve.
func Serve(a *app.App) *cobra.Command { return commands{a}.serveCommand() }
