package installers

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Spec makes the command spec.
func Spec(a *app.App) *cobra.Command { return commands{a}.specCommand() }
