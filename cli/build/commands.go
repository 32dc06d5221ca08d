package build

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Manifest makes the command manifest.
func Manifest(a *app.App) *cobra.Command { return commands{a}.manifestCommand() }

// AddOn makes the command addon, with further commands below it.
func AddOn(a *app.App, further ...*cobra.Command) *cobra.Command {
	cmd := commands{a}.addonCommand()
	cmd.AddCommand(further...)
	return cmd
}

// Lock makes the command lock.
func Lock(a *app.App) *cobra.Command { return commands{a}.lockCommand() }

// Build makes the command build.
func Build(a *app.App) *cobra.Command { return commands{a}.buildCommand() }

// InPod makes the command that pods of a build on a cluster run.
func InPod(a *app.App) *cobra.Command { return commands{a}.inPodCommand() }

// Key makes the command key.
func Key(a *app.App) *cobra.Command { return commands{a}.keyCommand() }

// Cache makes the command cache.
func Cache(a *app.App) *cobra.Command { return commands{a}.cacheCommand() }

// Inspect makes the command inspect.
func Inspect(a *app.App) *cobra.Command { return commands{a}.inspectCommand() }

// Extract makes the command extract.
func Extract(a *app.App) *cobra.Command { return commands{a}.extractCommand() }

// Import makes the command import.
func Import(a *app.App) *cobra.Command { return commands{a}.importCommand() }

// Publish makes the command publish.
func Publish(a *app.App) *cobra.Command { return commands{a}.publishCommand() }
