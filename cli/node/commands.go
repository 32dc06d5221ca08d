package node

import (
	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Preflight makes the command preflight.
func Preflight(a *app.App) *cobra.Command { return commands{a}.preflightCommand() }

// Install makes the command install.
func Install(a *app.App) *cobra.Command { return commands{a}.installCommand() }

// Token makes the command token.
func Token(a *app.App) *cobra.Command { return commands{a}.tokenCommand() }

// Join makes the command join.
func Join(a *app.App) *cobra.Command { return commands{a}.joinCommand() }

// Status makes the command status.
func Status(a *app.App) *cobra.Command { return commands{a}.statusCommand() }

// Journal makes the command journal.
func Journal(a *app.App) *cobra.Command { return commands{a}.journalCommand() }

// SupportBundle makes the command support-bundle.
func SupportBundle(a *app.App) *cobra.Command { return commands{a}.supportBundleCommand() }

// Images makes the command images.
func Images(a *app.App) *cobra.Command { return commands{a}.imagesCommand() }

// Node makes the command node.
func Node(a *app.App) *cobra.Command { return commands{a}.nodeCommand() }

// Reset makes the command reset.
func Reset(a *app.App) *cobra.Command { return commands{a}.resetCommand() }

// Hook makes the command hook.
func Hook(a *app.App) *cobra.Command { return commands{a}.hookCommand() }
