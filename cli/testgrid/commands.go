// Package testgrid has the commands of the test grid, which a vendor runs before a release.
package testgrid

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Commands makes the commands of the test grid.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.conformanceCommand(), c.enterCommand(), c.historyCommand(), c.inPodCommand(), c.lintCommand(), c.runCommand(), c.schemaCommand(),
		c.serveCommand()}
}
