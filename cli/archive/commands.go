package archive

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Verify makes the command verify.
func Verify(a *app.App) *cobra.Command { return commands{a}.verifyCommand() }

// Inspect makes the command inspect.
func Inspect(a *app.App) *cobra.Command { return commands{a}.inspectCommand() }
