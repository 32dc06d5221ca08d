package node

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Commands makes the commands for a node, in the order in which they are used.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{
		c.preflightCommand(), c.installCommand(), c.tokenCommand(), c.joinCommand(), c.statusCommand(), c.adoptCommand(), c.upgradeCommand(), c.journalCommand(),
		c.certsCommand(), c.snapshotCommand(), c.restoreCommand(), c.supportBundleCommand(), c.imagesCommand(), c.nodeCommand(), c.resetCommand(),
	}
}

// Hook makes the command hook, by which programs of hooks call sealift.
func Hook(a *app.App) *cobra.Command { return commands{a}.hookCommand() }
