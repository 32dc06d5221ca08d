package channel

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Apply makes the command apply.
func Apply(a *app.App) *cobra.Command { return commands{a}.applyCommand() }

// Channel makes the command channel.
func Channel(a *app.App) *cobra.Command { return commands{a}.channelCommand() }
